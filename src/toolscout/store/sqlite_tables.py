"""The rows of an SQLite store and of the journal beside it, for copies."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..errors import StoreError
from .migrations import migrate_with_retry
from .sqlite import translate_errors
from .sqlite_log import APPLICATION_ID as LOG_APPLICATION_ID
from .sqlite_log import MIGRATIONS as LOG_MIGRATIONS
from .transfer import COLUMNS, LOG, RECORDS, TableRow

_TIMEOUT_SECONDS = 5.0


class SqliteTables:
    """Two SQLite files; with `is_source` they have to exist and are not created."""

    def __init__(self, store: Path, journal: Path, *, is_source: bool) -> None:
        self.name = str(store)
        if is_source and not store.exists():
            raise StoreError(
                f"There is no store at {store}.",
                hint="Name the file that the setting store names; nothing was changed.",
            )
        self._paths = {RECORDS: store, LOG: journal}
        self._connections: dict[str, sqlite3.Connection] = {}
        for table, path in self._paths.items():
            # A gateway without a journal has only the store.
            if path.exists() or not is_source:
                self._connections[table] = _open(table, path)
        if self.has_chain and not is_source:
            self.close()
            raise StoreError(
                f"The journal {journal} has a hash chain, which a copy would break.",
                hint="Name another file; nothing was changed.",
            )

    @property
    def has_chain(self) -> bool:
        """Whether the journal has a hash chain, which is not copied."""
        if LOG not in self._connections:
            return False
        with translate_errors(self._paths[LOG]):
            return bool(self._connections[LOG].execute("SELECT 1 FROM chain LIMIT 1").fetchone())

    def count(self) -> dict[str, int]:
        """How many rows there are: records by `records/SPACE`, and `log`."""
        counts: dict[str, int] = {}
        with translate_errors(self._paths[RECORDS]):
            query = "SELECT space, count(*) FROM records GROUP BY space ORDER BY space"
            for space, number in self._connections[RECORDS].execute(query):
                counts[f"{RECORDS}/{space}"] = number
        if LOG in self._connections:
            with translate_errors(self._paths[LOG]):
                (rows,) = self._connections[LOG].execute("SELECT count(*) FROM log").fetchone()
            counts |= {LOG: rows} if rows else {}
        return counts

    def read(self, table: str, *, after: int, limit: int) -> Sequence[TableRow]:
        """Rows with a higher sequence, in its order."""
        if table not in self._connections:
            return ()
        query = (
            f"SELECT {', '.join(COLUMNS[table])} FROM {table} WHERE sequence > ?"  # noqa: S608 - constants
            " ORDER BY sequence LIMIT ?"
        )
        with translate_errors(self._paths[table]):
            return self._connections[table].execute(query, (after, limit)).fetchall()

    @contextmanager
    def replace(self) -> Generator[Callable[[str, Sequence[TableRow]], None]]:
        """Delete all rows, and write those that the block gives; all of it or nothing."""
        with ExitStack() as stack:
            for table, sql in self._connections.items():
                stack.enter_context(_transaction(sql, self._paths[table]))
                sql.execute(f"DELETE FROM {table}")  # noqa: S608 - a constant
            yield self._write

    def close(self) -> None:
        """Close both files."""
        for sql in self._connections.values():
            sql.close()

    def _write(self, table: str, rows: Sequence[TableRow]) -> None:
        columns = COLUMNS[table]
        marks = ", ".join("?" * len(columns))
        query = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - constants
        with translate_errors(self._paths[table]):
            self._connections[table].executemany(query, rows)


@contextmanager
def _transaction(sql: sqlite3.Connection, path: Path) -> Generator[None]:
    with translate_errors(path):
        sql.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if sql.in_transaction:
            sql.execute("ROLLBACK")
        raise
    with translate_errors(path):
        sql.execute("COMMIT")


def _open(table: str, path: Path) -> sqlite3.Connection:
    with translate_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            path.touch(mode=0o600)
        sql = sqlite3.connect(path, timeout=_TIMEOUT_SECONDS, isolation_level=None)
        try:
            if table == RECORDS:
                migrate_with_retry(sql, timeout_seconds=_TIMEOUT_SECONDS)
            else:
                migrate_with_retry(
                    sql,
                    LOG_MIGRATIONS,
                    timeout_seconds=_TIMEOUT_SECONDS,
                    application_id=LOG_APPLICATION_ID,
                )
        except BaseException:
            sql.close()
            raise
        return sql
