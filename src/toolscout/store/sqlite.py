"""The default store: one SQLite file that several processes can share."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from ..errors import DamagedStoreError, StoreError
from .contract import Clock, Record, StoreLimits, check_entry
from .migrations import migrate_with_retry

# Words in SQLite's own messages, what happened, and what to do. Matched by text, because Python
# reports some of these without an error code ("Cannot operate on a closed database").
_ERROR_HINTS: tuple[tuple[str, str, str], ...] = (
    (
        "locked",
        "is locked by another process",
        "Try again; if that does not help, end that process or raise busy_timeout_seconds.",
    ),
    (
        "readonly",
        "is read-only",
        "Allow writing to the file and its folder, or name another file.",
    ),
    (
        "full",
        "cannot grow: the disk or its quota is full",
        "Free some space or lower max_sessions; nothing was half written.",
    ),
    (
        "unable to open",
        "cannot be opened",
        "Check that its folder exists, is a folder, and may be written to.",
    ),
    (
        "not a database",
        "is not a store: it is damaged or another kind of file",
        "Move it elsewhere (keep a copy) to start with a new one, or name another file.",
    ),
    (
        "malformed",
        "is damaged",
        "Move it elsewhere (keep a copy) to start with a new one, or restore it from a backup.",
    ),
    (
        "closed",
        "is closed",
        "Open a new store.",
    ),
)
_DAMAGE = ("not a database", "malformed")


@contextmanager
def translate_errors(path: Path) -> Generator[None]:
    """Turn every failure of the file into a StoreError that names the file."""
    try:
        yield
    except StoreError as error:
        raise type(error)(f"{path}: {error.message}", hint=error.hint) from error
    except OSError as error:
        raise StoreError(
            f"The store {path} cannot be opened: {error.strerror}.",
            hint="Check that its folder exists, is a folder, and may be written to.",
        ) from error
    except sqlite3.Error as error:
        raise _store_error(path, error) from error


def _store_error(path: Path, error: Exception) -> StoreError:
    text = str(error).lower()
    for word, problem, hint in _ERROR_HINTS:
        if word in text:
            cls = DamagedStoreError if word in _DAMAGE else StoreError
            return cls(f"The store {path} {problem}.", hint=hint)
    return StoreError(f"The store {path} failed: {error}.", hint="Check the disk, then try again.")


_COLUMNS = "key, version, text, created, updated"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteOptions:
    """How a file is opened: how long to wait for other writers, and how large it may grow."""

    busy_timeout_seconds: float = 5.0
    max_bytes: int | None = None


class SqliteStore:
    """Keeps texts in one SQLite file.

    A process that is killed loses no acknowledged write, and readers never wait for a writer.
    `space` separates unrelated keys in the same file; each space has its own limits.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        space: str = "sessions",
        limits: StoreLimits | None = None,
        options: SqliteOptions | None = None,
        clock: Clock = time.time,
    ) -> None:
        self.path = Path(path)
        self._space = space
        self._limits = limits or StoreLimits()
        self._clock = clock
        # One connection for all threads; SQLite allows that if they take turns.
        self._lock = Lock()
        with translate_errors(self.path):
            self._connection = _connect(self.path, options or SqliteOptions())

    def get(self, key: str) -> Record | None:
        """The record of a key, or None."""
        check_entry(key)
        with self._lock_connection() as sql:
            return self._select(sql, key)

    def put(self, key: str, text: str, *, expected: int) -> Record | None:
        """Write if the version is still the expected one (0: no record yet)."""
        check_entry(key, text)
        with self._transaction() as sql:
            old = self._select(sql, key)
            if (old.version if old else 0) != expected:
                return None
            now = self._clock()
            new = Record(key, expected + 1, text, old.created if old else now, now)
            # REPLACE gives the row a new sequence number, which breaks ties of `updated`.
            sql.execute(
                f"INSERT OR REPLACE INTO records (space, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608 - a constant
                (self._space, new.key, new.version, new.text, new.created, new.updated),
            )
            if old is None:
                self._evict(sql)
        return new

    def delete(self, key: str) -> bool:
        """Delete a key; whether it existed."""
        check_entry(key)
        with self._transaction() as sql:
            existed = self._select(sql, key) is not None
            sql.execute("DELETE FROM records WHERE space = ? AND key = ?", (self._space, key))
        return existed

    def expire(self) -> int:
        """Delete expired records; how many there were."""
        with self._transaction() as sql:
            return sql.execute(
                "DELETE FROM records WHERE space = ? AND updated <= ?",
                (self._space, self._expiry_cutoff()),
            ).rowcount

    def list(self, *, limit: int = 100) -> tuple[Record, ...]:
        """The records, last written first."""
        with self._lock_connection() as sql:
            rows = sql.execute(
                f"SELECT {_COLUMNS} FROM records WHERE space = ? AND updated > ?"  # noqa: S608 - a constant
                " ORDER BY updated DESC, sequence DESC LIMIT ?",
                (self._space, self._expiry_cutoff(), limit),
            ).fetchall()
        return tuple(Record(*row) for row in rows)

    def close(self) -> None:
        """Close the file; a closed store raises StoreError."""
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
        """Records last written at or before this time have expired."""
        ttl = self._limits.ttl_seconds
        return float("-inf") if ttl is None else self._clock() - ttl

    @contextmanager
    def _lock_connection(self) -> Generator[sqlite3.Connection]:
        with self._lock, translate_errors(self.path):
            yield self._connection

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        """One write transaction, committed as a whole or rolled back."""
        with self._lock, translate_errors(self.path):
            # IMMEDIATE takes the write lock before the first read. A transaction that reads first
            # and upgrades later fails at once if another process wrote in between, regardless of
            # the busy timeout.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                # SQLite itself rolls back on some errors, such as a full disk.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")


def _connect(path: Path, options: SqliteOptions) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Conversations are private. SQLite gives its -wal and -shm files the mode of the main file.
    if not path.exists():
        path.touch(mode=0o600)
    connection = sqlite3.connect(
        path,
        timeout=options.busy_timeout_seconds,
        isolation_level=None,  # transactions are begun and ended here, not by Python
        check_same_thread=False,
    )
    try:
        migrate_with_retry(connection, timeout_seconds=options.busy_timeout_seconds)
        # With WAL, a power cut may lose the last transactions but never damages the file. A full
        # sync would cost milliseconds per call (docs/decisions/sessions.md).
        connection.execute("PRAGMA synchronous = NORMAL")
        if options.max_bytes is not None:
            (size,) = connection.execute("PRAGMA page_size").fetchone()
            connection.execute(f"PRAGMA max_page_count = {max(1, options.max_bytes // size)}")
    except BaseException:
        connection.close()
        raise
    return connection
