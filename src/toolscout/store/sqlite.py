"""The default store: one SQLite file that many processes may share."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from ..errors import StoreError
from .contract import Clock, Record, StoreLimits, check_entry
from .migrations import migrate

# Key words of the engine's own messages, which are stable, to what happened and what to do.
_ERROR_HINTS: tuple[tuple[str, str, str], ...] = (
    (
        "locked",
        "is locked by another process",
        "Try again; if it stays so, end that process or wait longer (busy_timeout_seconds).",
    ),
    (
        "readonly",
        "is read-only",
        "Allow writing to the file and its folder, or name another file.",
    ),
    (
        "full",
        "cannot grow: the disk or its quota is full",
        "Free some space or lower the number of sessions kept; nothing was half written.",
    ),
    (
        "unable to open",
        "cannot be opened",
        "Check that its folder exists, is a folder, and may be written to.",
    ),
    (
        "not a database",
        "is not a store: it is damaged or another kind of file",
        "Move it away (keep a copy) and start anew, or name another file.",
    ),
    (
        "malformed",
        "is damaged",
        "Move it away (keep a copy) and start anew, or restore it from a backup.",
    ),
    (
        "closed",
        "is closed",
        "Open a new store.",
    ),
)


@contextmanager
def translate_errors(path: Path) -> Generator[None]:
    """Turn every failure of the file into one StoreError that names it."""
    try:
        yield
    except StoreError as error:
        raise StoreError(f"{path}: {error.message}", hint=error.hint) from error
    except OSError as error:
        raise StoreError(
            f"The store {path} cannot be opened: {error.strerror}.",
            hint="Check that its folder exists, is a folder, and may be written to.",
        ) from error
    except sqlite3.Error as error:
        raise _store_error(path, error) from error


def _store_error(path: Path, error: Exception) -> StoreError:
    text = str(error).lower()
    for word, what, then in _ERROR_HINTS:
        if word in text:
            return StoreError(f"The store {path} {what}.", hint=then)
    return StoreError(f"The store {path} failed: {error}.", hint="Check the disk, then try again.")


_RETRY_PAUSE_SECONDS = 0.02
_COLUMNS = "key, version, text, created, updated"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteOptions:
    """How a file is opened: how long to wait for other writers, and how large it may grow."""

    busy_timeout_seconds: float = 5.0
    max_bytes: int | None = None


class SqliteStore:
    """Keeps texts in one file, in write-ahead mode: a killed process loses nothing it was told is
    written, and readers never wait for a writer.

    `space` separates unrelated keys in the same file; each space has limits of its own.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        space: str = "sessions",
        limits: StoreLimits | None = None,
        access: SqliteOptions | None = None,
        clock: Clock = time.time,
    ) -> None:
        self.path = Path(path)
        self._space = space
        self._limits = limits or StoreLimits()
        self._clock = clock
        self._lock = Lock()
        with translate_errors(self.path):
            self._connection = _connect(self.path, access or SqliteOptions())

    def get(self, key: str) -> Record | None:
        """What is kept under a key."""
        check_entry(key)
        with self._lock_connection() as sql:
            return self._select(sql, key)

    def put(self, key: str, text: str, *, expected: int) -> Record | None:
        """Write if the version is still the expected one (0: not there yet)."""
        check_entry(key, text)
        with self._transaction() as sql:
            old = self._select(sql, key)
            if (old.version if old else 0) != expected:
                return None
            now = self._clock()
            new = Record(key, expected + 1, text, old.created if old else now, now)
            sql.execute(
                f"INSERT OR REPLACE INTO records (space, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608 - a constant
                (self._space, new.key, new.version, new.text, new.created, new.updated),
            )
            if old is None:
                self._evict(sql)
        return new

    def delete(self, key: str) -> bool:
        """Forget a key; whether there was anything."""
        check_entry(key)
        with self._transaction() as sql:
            was = self._select(sql, key) is not None
            sql.execute("DELETE FROM records WHERE space = ? AND key = ?", (self._space, key))
        return was

    def expire(self) -> int:
        """Drop what is too old, and say how many that were."""
        with self._transaction() as sql:
            return sql.execute(
                "DELETE FROM records WHERE space = ? AND updated <= ?",
                (self._space, self._expiry_cutoff()),
            ).rowcount

    def list(self, *, limit: int = 100) -> tuple[Record, ...]:
        """What is kept, last written first."""
        with self._lock_connection() as sql:
            rows = sql.execute(
                f"SELECT {_COLUMNS} FROM records WHERE space = ? AND updated > ?"  # noqa: S608 - a constant
                " ORDER BY updated DESC, sequence DESC LIMIT ?",
                (self._space, self._expiry_cutoff(), limit),
            ).fetchall()
        return tuple(Record(*row) for row in rows)

    def close(self) -> None:
        """Let go of the file; a closed store refuses everything."""
        with self._lock:
            self._connection.close()

    def _select(self, sql: sqlite3.Connection, key: str) -> Record | None:
        row = sql.execute(
            f"SELECT {_COLUMNS} FROM records WHERE space = ? AND key = ? AND updated > ?",  # noqa: S608 - a constant
            (self._space, key, self._expiry_cutoff()),
        ).fetchone()
        return Record(*row) if row else None

    def _evict(self, sql: sqlite3.Connection) -> None:
        if self._limits.cap is None:
            return
        sql.execute(
            "DELETE FROM records WHERE sequence IN (SELECT sequence FROM records WHERE space = ?"
            " ORDER BY updated DESC, sequence DESC LIMIT -1 OFFSET ?)",
            (self._space, self._limits.cap),
        )

    def _expiry_cutoff(self) -> float:
        """The time up to which records are too old."""
        ttl = self._limits.ttl_seconds
        return float("-inf") if ttl is None else self._clock() - ttl

    @contextmanager
    def _lock_connection(self) -> Generator[sqlite3.Connection]:
        with self._lock, translate_errors(self.path):
            yield self._connection

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        """One transaction, whole or not at all; the write lock is taken at once."""
        with self._lock, translate_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")


def _connect(path: Path, access: SqliteOptions) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    # What a conversation did is nobody else's business; SQLite gives its side files the same mode.
    if not path.exists():
        path.touch(mode=0o600)
    connection = sqlite3.connect(
        path,
        timeout=access.busy_timeout_seconds,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        _migrate_with_retry(connection, patience_seconds=access.busy_timeout_seconds)
        connection.execute("PRAGMA synchronous = NORMAL")
        if access.max_bytes is not None:
            (size,) = connection.execute("PRAGMA page_size").fetchone()
            connection.execute(f"PRAGMA max_page_count = {max(1, access.max_bytes // size)}")
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate_with_retry(connection: sqlite3.Connection, *, patience_seconds: float) -> None:
    """Bring the file into form; two that make it at once must not trip over each other.

    SQLite does not wait for another process where both want to change the journal's mode.
    """
    given_up = time.monotonic() + patience_seconds
    while True:
        try:
            return migrate(connection)
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() >= given_up:
                raise
            time.sleep(_RETRY_PAUSE_SECONDS)
