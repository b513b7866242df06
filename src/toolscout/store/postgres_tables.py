"""The rows of a PostgreSQL store, for copies."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from .postgres import MIGRATION_TIMEOUT_SECONDS, decode_text, encode_text
from .postgres_connection import SqlConnection
from .postgres_errors import translate_driver_errors
from .postgres_log import row_bytes
from .postgres_migrations import migrate_postgres
from .postgres_pool import PostgresPool
from .transfer import COLUMNS, LOG, RECORDS, TableRow

# Nobody waits for a copy as for a call; a batch is large.
_TIMEOUT_SECONDS = 60.0
_DATA, _VECTOR = (COLUMNS[LOG].index(name) for name in ("data", "vector"))


class PostgresTables:
    """A database on a connection of its own; missing tables are created."""

    has_chain = False

    def __init__(self, url: str) -> None:
        pool = PostgresPool(url)
        self.name = pool.name
        self._url = url
        self._sql = pool.connect()
        try:
            with self._use(MIGRATION_TIMEOUT_SECONDS) as sql:
                migrate_postgres(sql)
        except BaseException:
            self._sql.close()
            raise

    def count(self) -> dict[str, int]:
        """How many rows there are: records by `records/SPACE`, and `log`."""
        query = "SELECT space, count(*) FROM toolscout_records GROUP BY space ORDER BY space"
        with self._use() as sql:
            spaces = sql.execute(query).fetchall()
            (rows,) = sql.execute("SELECT count(*) FROM toolscout_log").fetchone() or (0,)
        counts = {f"{RECORDS}/{space}": int(number) for space, number in spaces}
        return counts | ({LOG: int(rows)} if rows else {})

    def read(self, table: str, *, after: int, limit: int) -> Sequence[TableRow]:
        """Rows with a higher sequence, in its order."""
        query = (
            f"SELECT {', '.join(COLUMNS[table])} FROM toolscout_{table} WHERE sequence > %s"  # noqa: S608 - constants
            " ORDER BY sequence LIMIT %s"
        )
        with self._use() as sql:
            rows = sql.execute(query, (after, limit)).fetchall()
        return [tuple(decode_text(v) if isinstance(v, str) else v for v in row) for row in rows]

    @contextmanager
    def replace(self) -> Generator[Callable[[str, Sequence[TableRow]], None]]:
        """Delete all rows, and write those that the block gives; all of it or nothing."""
        with self._use() as sql, sql.transaction():
            # Other gateways may read meanwhile, and write when the copy is complete.
            sql.execute("LOCK TABLE toolscout_records, toolscout_log IN EXCLUSIVE MODE")
            for table in COLUMNS:
                sql.execute(f"DELETE FROM toolscout_{table}")  # noqa: S608 - a constant
            yield self._write
            for table in COLUMNS:
                self._continue_sequence(table)

    def close(self) -> None:
        """Close the connection."""
        self._sql.close()

    def _write(self, table: str, rows: Sequence[TableRow]) -> None:
        columns = COLUMNS[table]
        values = [[encode_text(v) if isinstance(v, str) else v for v in row] for row in rows]
        if table == LOG:
            columns = (*columns, "bytes")
            sizes = (row_bytes(data=row[_DATA], vector=row[_VECTOR]) for row in rows)
            values = [[*value, size] for value, size in zip(values, sizes, strict=True)]
        marks = ", ".join(["%s"] * len(columns))
        query = f"INSERT INTO toolscout_{table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - constants
        with self._use() as sql:
            sql.cursor().executemany(query, values)

    def _continue_sequence(self, table: str) -> None:
        name = f"toolscout_{table}"
        # Never back: a sequence is not used twice.
        query = f"""
            SELECT setval('{name}_sequence_seq', greatest(
                (SELECT max(sequence) FROM {name}), (SELECT last_value FROM {name}_sequence_seq)
            ))"""  # noqa: S608 - constants
        with self._use() as sql:
            sql.execute(query)

    @contextmanager
    def _use(self, timeout_seconds: float = _TIMEOUT_SECONDS) -> Generator[SqlConnection]:
        sql: Any = self._sql
        with translate_driver_errors(self._url, timeout_seconds=timeout_seconds):
            sql.deadline = time.monotonic() + timeout_seconds
            yield sql
