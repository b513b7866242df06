"""The default log: a table in its own SQLite file, shared by several processes."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from ..errors import StoreError
from .log_chain import ChainOptions, ChainWriter
from .log_contract import EVERY_ROW, MAX_PRUNED_AT_ONCE, LogFilter, LogRow, LogSize
from .migrations import Migrations, migrate_with_retry
from .sqlite import translate_errors

# "scoj" in ASCII: a journal is not mistaken for a store of sessions, nor the other way round.
APPLICATION_ID = 0x73636F6A
BUSY_TIMEOUT_SECONDS = 0.25
# A checkpoint waits for the disk, so `prune` does it, away from calls. This many pages (16 MB) are
# the limit at which a writer does it after all.
_CHECKPOINT_PAGES = 1_000
_WAL_BYTES_KEPT = 1 << 20
_FREE_PAGES_KEPT = 1_000
_FREE_PAGES_RETURNED = 500

# A released step never changes: files with it exist. Later changes are further steps.
MIGRATIONS: Migrations = (
    (
        """CREATE TABLE log (
            sequence INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            parent TEXT NOT NULL,
            time REAL NOT NULL,
            kind TEXT NOT NULL,
            session TEXT NOT NULL,
            principal TEXT NOT NULL,
            client TEXT NOT NULL,
            tool TEXT NOT NULL,
            server TEXT NOT NULL,
            outcome TEXT,
            took_ms REAL,
            process TEXT NOT NULL,
            data TEXT NOT NULL,
            vector BLOB NOT NULL
        )""",
        # An index of SQLite ends with the row number, so each of these also gives the order.
        "CREATE INDEX log_by_time ON log (time)",
        # Nearly all rows are calls and searches: those are found without an index.
        "CREATE INDEX log_by_kind ON log (kind) WHERE kind NOT IN ('call', 'search')",
        "CREATE INDEX log_by_session ON log (session) WHERE session <> ''",
        "CREATE INDEX log_by_principal ON log (principal) WHERE principal <> ''",
        "CREATE INDEX log_by_tool ON log (tool) WHERE tool <> ''",
        "CREATE INDEX log_by_server ON log (server) WHERE server <> ''",
        "CREATE INDEX log_by_parent ON log (parent) WHERE parent <> ''",
        "CREATE INDEX log_by_failure ON log (outcome) WHERE outcome <> 'ok'",
        "CREATE INDEX log_open ON log (sequence) WHERE outcome IS NULL",
    ),
    (
        """CREATE TABLE chain (
            position INTEGER PRIMARY KEY,
            kind TEXT NOT NULL,
            row INTEGER NOT NULL,
            digest BLOB NOT NULL,
            data TEXT NOT NULL,
            key TEXT NOT NULL,
            hash BLOB NOT NULL
        )""",
        # Few links record removed rows; the newest one says where the chain begins.
        "CREATE INDEX chain_removals ON chain (position) WHERE kind = 'removed'",
    ),
)

_FIELDS = (
    "id", "parent", "time", "kind", "session", "principal", "client", "tool", "server", "outcome",
    "took_ms", "process", "data", "vector",
)  # fmt: skip
_INSERT = (
    f"INSERT OR IGNORE INTO log ({', '.join(_FIELDS)})"  # noqa: S608 - constants
    f" VALUES ({', '.join('?' * len(_FIELDS))})"
)
_SELECT = f"SELECT {', '.join((*_FIELDS, 'sequence'))} FROM log"  # noqa: S608 - constants
_COMPLETE = (
    "UPDATE log SET outcome = ?, took_ms = ?, parent = CASE ? WHEN '' THEN parent ELSE ? END"
    " WHERE id = ? AND outcome IS NULL"
)
# The last character that UTF-8 can hold: nothing that begins with a prefix sorts after it.
_END = "\U0010ffff"


class SqliteLog:
    """Keeps rows in one SQLite file, which is opened by the first use and again if it was replaced.

    A process that is killed loses no acknowledged row, and readers never wait for a writer.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS,
        chain: ChainOptions | None = None,
    ) -> None:
        self.path = Path(path)
        self._chain = ChainWriter(chain or ChainOptions(), log=Path(path))
        self._timeout_seconds = busy_timeout_seconds
        self._connection: sqlite3.Connection | None = None
        self._file_id: tuple[int, int] | None = None
        self._is_closed = False
        # One connection for all threads; SQLite allows that if they take turns.
        self._lock = Lock()

    def append(self, row: LogRow) -> bool:
        """Add a row; False if there is one with its id already."""
        values = tuple(getattr(row, name) for name in _FIELDS)
        with self._use() as sql, _transaction(sql):
            last = self._chain.prepare(sql)
            added = sql.execute(_INSERT, values)
            if added.rowcount != 1:
                # Otherwise SQLite would use up a number for a row that is not added.
                sql.execute("ROLLBACK")
                return False
            if last is not None:
                assert added.lastrowid is not None
                self._chain.add_row(sql, last, row, sequence=added.lastrowid)
            return True

    def complete(
        self,
        id: str,  # noqa: A002 - as rows call it
        *,
        outcome: str,
        took_ms: float | None = None,
        parent: str = "",
    ) -> bool:
        """Set the outcome of a row that has none yet; whether there was one."""
        with self._use() as sql, _transaction(sql):
            last = self._chain.prepare(sql)
            values = (outcome, took_ms, parent, parent, id)
            if sql.execute(_COMPLETE, values).rowcount != 1:
                return False
            if last is not None:
                (row,) = _rows(sql.execute(f"{_SELECT} WHERE id = ?", (id,)).fetchall())
                self._chain.add_outcome(sql, last, row)
            return True

    def read(
        self,
        where: LogFilter = EVERY_ROW,
        *,
        limit: int = 100,
        is_newest_first: bool = True,
    ) -> tuple[LogRow, ...]:
        """Rows in the order of their sequence."""
        condition, values = filter_condition(where)
        order = "DESC" if is_newest_first else "ASC"
        query = f"{_SELECT} WHERE {condition} ORDER BY sequence {order} LIMIT ?"
        return self._select(query, *values, limit)

    def find(self, prefix: str, *, limit: int = 2) -> tuple[LogRow, ...]:
        """Rows whose id begins with this text, in the order of their ids."""
        query = f"{_SELECT} WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
        return self._select(query, prefix, prefix + _END, limit)

    def prune(
        self,
        *,
        older_than: float | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
    ) -> int:
        """Delete some of the oldest rows beyond these limits; 0 when all is within them."""
        # A separate connection: a checkpoint waits for the disk, and writers of this process
        # must not wait with it.
        with translate_errors(self.path):
            if self._is_closed or not self.path.exists():
                return 0
            sql = _connect(self.path, self._timeout_seconds)
            try:
                with _transaction(sql):
                    sequences = _oldest(sql, older_than, max_rows, max_bytes)
                    self._delete(sql, sequences, why="retention")
                if _read_pragma(sql, "freelist_count") > _FREE_PAGES_KEPT:
                    # As a script: `execute` would free a single page.
                    sql.executescript(f"PRAGMA incremental_vacuum({_FREE_PAGES_RETURNED})")
                # TRUNCATE, because a log that is only written over keeps the size it once had.
                sql.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                sql.close()
        return len(sequences)

    def erase(self, principal: str) -> int:
        """Delete all rows of a principal; how many there were."""
        deleted = 0
        query = "SELECT sequence FROM log WHERE principal = ? AND principal <> '' LIMIT ?"
        while True:
            with self._use() as sql, _transaction(sql):
                found = sql.execute(query, (principal, MAX_PRUNED_AT_ONCE)).fetchall()
                self._delete(sql, [sequence for (sequence,) in found], why="erased")
            if not found:
                return deleted
            deleted += len(found)

    def count(self, where: LogFilter = EVERY_ROW) -> int:
        """How many rows match."""
        condition, values = filter_condition(where)
        with self._use() as sql:
            query = f"SELECT count(*) FROM log WHERE {condition}"  # noqa: S608 - constants
            (count,) = sql.execute(query, values).fetchone()
        return int(count)

    def size(self) -> LogSize:
        """How many rows there are and how much space they take."""
        with self._use() as sql:
            (rows,) = sql.execute("SELECT count(*) FROM log").fetchone()
            return LogSize(rows=int(rows), bytes=_used_bytes(sql))

    def set_aside(self) -> str:
        """Rename a damaged file and those beside it; the next use creates an empty one."""
        with self._lock, translate_errors(self.path):
            seen = self._file_id
            self._disconnect()
            # Another process may have renamed it and started a new one, which is not damaged.
            if seen is not None and _file_id(self.path) not in (None, seen):
                return ""
            stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
            aside = self.path.with_name(f"{self.path.name}.damaged-{stamp}-{os.getpid()}")
            # The log itself first. SQLite deletes a -wal file beside a new, empty file, so the rows
            # of the damaged one never get into it.
            for suffix in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    Path(f"{self.path}{suffix}").replace(f"{aside}{suffix}")
            return str(aside)

    def close(self) -> None:
        """Close the file; a closed log raises StoreError."""
        with self._lock:
            self._is_closed = True
            self._disconnect()

    def _select(self, query: str, *values: object) -> tuple[LogRow, ...]:
        with self._use() as sql:
            return _rows(sql.execute(query, values).fetchall())

    def _delete(self, sql: sqlite3.Connection, sequences: list[int], *, why: str) -> None:
        if not sequences:
            return
        marks = ", ".join("?" * len(sequences))
        sql.execute(f"DELETE FROM log WHERE sequence IN ({marks})", sequences)  # noqa: S608 - constants
        self._chain.add_removal(sql, sequences, why=why)

    @contextmanager
    def _use(self) -> Generator[sqlite3.Connection]:
        with self._lock, translate_errors(self.path):
            if self._is_closed:
                raise StoreError("The log is closed.", hint="Open a new one.")
            # A deleted or renamed file still takes rows, which no one would ever read.
            if self._connection is not None and _file_id(self.path) != self._file_id:
                self._disconnect()
            if self._connection is None:
                self._connection = self._open()
            yield self._connection

    def _open(self) -> sqlite3.Connection:
        try:
            return _connect(self.path, self._timeout_seconds)
        finally:
            self._file_id = _file_id(self.path)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


@contextmanager
def _transaction(sql: sqlite3.Connection) -> Generator[None]:
    """All changes of the block, or none."""
    sql.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        # A full disk may have ended the transaction already.
        if sql.in_transaction:
            sql.execute("ROLLBACK")
        raise
    if sql.in_transaction:
        sql.execute("COMMIT")


def rows_in_order(sql: sqlite3.Connection) -> Iterator[LogRow]:
    """All rows of an open file, one after the other."""
    for found in sql.execute(f"{_SELECT} ORDER BY sequence"):
        yield from _rows([found])


def _rows(found: list[tuple[Any, ...]]) -> tuple[LogRow, ...]:
    names = (*_FIELDS, "sequence")
    return tuple(LogRow(**dict(zip(names, row, strict=True))) for row in found)


def _connect(path: Path, timeout_seconds: float) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # SQLite gives its -wal and -shm files the mode of the main file.
    if not path.exists():
        path.touch(mode=0o600)
    connection = sqlite3.connect(
        path, timeout=timeout_seconds, isolation_level=None, check_same_thread=False
    )
    try:
        # Can only be chosen before the first table: freed pages can be given back later.
        if not path.stat().st_size:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        migrate_with_retry(
            connection, MIGRATIONS, timeout_seconds=timeout_seconds, application_id=APPLICATION_ID
        )
        connection.execute("PRAGMA synchronous = NORMAL")
        # Pruned rows are overwritten with zeros, not only unlinked.
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
    except BaseException:
        connection.close()
        raise
    return connection


def _file_id(path: Path) -> tuple[int, int] | None:
    """Identifies a file, to notice another that takes its name; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - for every row, and twice as fast as Path.stat
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def filter_condition(where: LogFilter) -> tuple[str, tuple[object, ...]]:
    """The filter as SQL, written so that SQLite uses the most selective index."""
    terms: list[tuple[str, tuple[object, ...]]] = []
    # The first of these is looked up in its index. A plus sign keeps SQLite from choosing the index
    # of a later one, which may match nearly every row.
    for name in ("parent", "session", "tool", "outcome", "server", "principal", "kind"):
        if value := getattr(where, name):
            sign = "+" if terms else ""
            terms.append((f"{sign}{name} = ?{_index_condition(name, value)}", (value,)))
    if where.session_prefix:
        bounds = (where.session_prefix, where.session_prefix + _END)
        terms.append(("session <> '' AND session >= ? AND session < ?", bounds))
    if where.is_open is not None:
        terms.append((f"outcome IS {'' if where.is_open else 'NOT '}NULL", ()))
    terms += _bounds(where)
    condition = " AND ".join(text for text, _ in terms) or "TRUE"
    return condition, tuple(value for _, values in terms for value in values)


def _index_condition(name: str, value: str) -> str:
    """The condition of a partial index, which SQLite uses only for a query that repeats it."""
    match name:
        case "kind":
            return "" if value in ("call", "search") else " AND kind NOT IN ('call', 'search')"
        case "outcome":
            return "" if value == "ok" else " AND outcome <> 'ok'"
        case _:
            return f" AND {name} <> ''"


def _bounds(where: LogFilter) -> list[tuple[str, tuple[object, ...]]]:
    terms: list[tuple[str, tuple[object, ...]]] = []
    # Times are nearly in the order of the rows, but not quite. The bound on the sequence lets
    # SQLite skip what lies outside; the one on the time is exact. Left alone, SQLite would look for
    # the smallest sequence from the oldest row on.
    if where.since is not None:
        first = "SELECT coalesce(min(sequence), 0) FROM log INDEXED BY log_by_time WHERE time >= ?"
        terms.append((f"+time >= ? AND sequence >= ({first})", (where.since, where.since)))
    if where.until is not None:
        last = "SELECT coalesce(max(sequence), 0) FROM log INDEXED BY log_by_time WHERE time < ?"
        terms.append((f"+time < ? AND sequence <= ({last})", (where.until, where.until)))
    if where.after:
        terms.append(("sequence > ?", (where.after,)))
    if where.before:
        terms.append(("sequence < ?", (where.before,)))
    return terms


def _oldest(
    sql: sqlite3.Connection, older_than: float | None, max_rows: int | None, max_bytes: int | None
) -> list[int]:
    """The sequences of some of the oldest rows beyond the limits."""
    chosen: list[int] = []
    if older_than is not None:
        query = "SELECT sequence FROM log WHERE time < ? ORDER BY time LIMIT ?"
        chosen = [found for (found,) in sql.execute(query, (older_than, MAX_PRUNED_AT_ONCE))]
    if not chosen and max_rows is not None:
        (rows,) = sql.execute("SELECT count(*) FROM log").fetchone()
        chosen = _first(sql, min(MAX_PRUNED_AT_ONCE, max(0, rows - max_rows)))
    if not chosen and max_bytes is not None and _used_bytes(sql) > max_bytes:
        chosen = _first(sql, MAX_PRUNED_AT_ONCE)
    return chosen


def _first(sql: sqlite3.Connection, count: int) -> list[int]:
    if not count:
        return []
    query = "SELECT sequence FROM log ORDER BY sequence LIMIT ?"
    return [found for (found,) in sql.execute(query, (count,))]


def _used_bytes(sql: sqlite3.Connection) -> int:
    pages = _read_pragma(sql, "page_count") - _read_pragma(sql, "freelist_count")
    return pages * _read_pragma(sql, "page_size")


def _read_pragma(sql: sqlite3.Connection, name: str) -> int:
    (value,) = sql.execute(f"PRAGMA {name}").fetchone()
    return int(value)
