"""The log of the journal in PostgreSQL, which many gateways share."""

from __future__ import annotations

from typing import Any

from .log_contract import EVERY_ROW, MAX_PRUNED_AT_ONCE, LogFilter, LogRow, LogSize
from .postgres import PostgresDatabase, decode_text, encode_text
from .postgres_connection import SqlConnection
from .postgres_migrations import LOG_LOCK

FIELDS = (
    "id", "parent", "time", "kind", "session", "principal", "client", "tool", "server", "outcome",
    "took_ms", "process", "data", "vector",
)  # fmt: skip
# The approximate size of a row without its data and vector, with its entries in the indexes.
_ROW_BYTES = 400
# An append holds the lock, shared, from before its row gets a sequence until it is committed.
INSERT = f"""
    WITH lock AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared({LOG_LOCK}))
    INSERT INTO toolscout_log ({", ".join(FIELDS)}, bytes)
    SELECT {", ".join(f"%({name})s" for name in FIELDS)}, %(bytes)s FROM lock
    ON CONFLICT (id) DO NOTHING"""  # noqa: S608 - constants
_SELECT = f"SELECT {', '.join((*FIELDS, 'sequence'))} FROM toolscout_log"  # noqa: S608 - constants
_COMPLETE = """
    UPDATE toolscout_log SET outcome = %(outcome)s, took_ms = %(took_ms)s,
        parent = coalesce(nullif(%(parent)s, ''), parent)
    WHERE id = %(id)s AND outcome IS NULL"""
_DELETE_OLD = """
    DELETE FROM toolscout_log WHERE sequence IN (
        SELECT sequence FROM toolscout_log WHERE time < %s ORDER BY time LIMIT %s
        FOR UPDATE SKIP LOCKED
    )"""
_DELETE_FIRST = """
    DELETE FROM toolscout_log WHERE sequence IN (
        SELECT sequence FROM toolscout_log ORDER BY sequence LIMIT %s FOR UPDATE SKIP LOCKED
    )"""
_ERASE = """
    DELETE FROM toolscout_log WHERE sequence IN (
        SELECT sequence FROM toolscout_log WHERE principal = %s AND principal <> '' LIMIT %s
    )"""
_SIZE = "SELECT count(*), coalesce(sum(bytes), 0) FROM toolscout_log"
# The last character that UTF-8 can hold: nothing that begins with a prefix sorts after it.
_END = "\U0010ffff"
# Counting the rows of a large log takes longer than one use of the store may.
_COUNT_TIMEOUT_SECONDS = 30.0


class PostgresLog:
    """Keeps rows in a PostgreSQL database; an acknowledged row is on the disk of the server."""

    def __init__(self, url: str) -> None:
        self._database = PostgresDatabase(url)

    def append(self, row: LogRow) -> bool:
        """Add a row; False if there is one with its id already."""
        with self._database.use() as sql:
            return sql.execute(INSERT, row_values(row)).rowcount == 1

    def complete(
        self,
        id: str,  # noqa: A002 - as rows call it
        *,
        outcome: str,
        took_ms: float | None = None,
        parent: str = "",
    ) -> bool:
        """Set the outcome of a row that has none yet; whether there was one."""
        texts = {"id": id, "outcome": outcome, "parent": parent}
        values = {name: encode_text(text) for name, text in texts.items()}
        with self._database.use() as sql:
            return sql.execute(_COMPLETE, {**values, "took_ms": took_ms}).rowcount == 1

    def read(
        self,
        where: LogFilter = EVERY_ROW,
        *,
        limit: int = 100,
        is_newest_first: bool = True,
    ) -> tuple[LogRow, ...]:
        """Rows in the order of their sequence."""
        condition, values = _filter_condition(where)
        order = "DESC" if is_newest_first else "ASC"
        with self._database.use() as sql:
            if not is_newest_first:
                # In a statement of its own: the rows are then read from a snapshot after the wait.
                (fence,) = sql.execute("SELECT toolscout_log_fence()").fetchone() or (0,)
                condition += " AND sequence <= %s"
                values.append(fence)
            query = f"{_SELECT} WHERE {condition} ORDER BY sequence {order} LIMIT %s"
            rows = sql.execute(query, (*values, limit)).fetchall()
        return tuple(map(read_row, rows))

    def find(self, prefix: str, *, limit: int = 2) -> tuple[LogRow, ...]:
        """Rows whose id begins with this text, in the order of their ids."""
        start = encode_text(prefix)
        query = f"{_SELECT} WHERE id >= %s AND id < %s ORDER BY id LIMIT %s"
        with self._database.use() as sql:
            rows = sql.execute(query, (start, start + _END, limit)).fetchall()
        return tuple(map(read_row, rows))

    def prune(
        self,
        *,
        older_than: float | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
    ) -> int:
        """Delete some of the oldest rows beyond these limits; 0 when all is within them."""
        with self._database.use(timeout_seconds=_COUNT_TIMEOUT_SECONDS) as sql:
            deleted = 0
            if older_than is not None:
                deleted = sql.execute(_DELETE_OLD, (older_than, MAX_PRUNED_AT_ONCE)).rowcount
            if not deleted and (over := _rows_over(sql, max_rows, max_bytes)):
                deleted = sql.execute(_DELETE_FIRST, (over,)).rowcount
        return deleted

    def erase(self, principal: str) -> int:
        """Delete all rows of a principal; how many there were."""
        if not principal:
            return 0
        deleted = 0
        while True:
            with self._database.use() as sql:
                batch = sql.execute(_ERASE, (encode_text(principal), MAX_PRUNED_AT_ONCE)).rowcount
            if not batch:
                return deleted
            deleted += batch

    def count(self, where: LogFilter = EVERY_ROW) -> int:
        """How many rows match."""
        condition, values = _filter_condition(where)
        query = f"SELECT count(*) FROM toolscout_log WHERE {condition}"  # noqa: S608 - constants
        with self._database.use(timeout_seconds=_COUNT_TIMEOUT_SECONDS) as sql:
            (count,) = sql.execute(query, values).fetchone() or (0,)
        return int(count)

    def size(self) -> LogSize:
        """How many rows there are and about how much space they take."""
        with self._database.use(timeout_seconds=_COUNT_TIMEOUT_SECONDS) as sql:
            rows, size = _read_size(sql)
        return LogSize(rows=rows, bytes=size)

    def set_aside(self) -> str:
        """A damaged server is for its administrator to repair: nothing to do."""
        return ""

    def close(self) -> None:
        """Release the connections; a closed log raises StoreError."""
        self._database.close()


def row_values(row: LogRow) -> dict[str, object]:
    """The values of a row by their column, without the sequence."""
    values = {name: getattr(row, name) for name in FIELDS}
    encoded = {n: encode_text(v) if isinstance(v, str) else v for n, v in values.items()}
    return {**encoded, "bytes": row_bytes(data=row.data, vector=row.vector)}


def row_bytes(*, data: str, vector: bytes) -> int:
    """About how much space a row takes."""
    return _ROW_BYTES + len(data) + len(vector)


def read_row(values: tuple[Any, ...]) -> LogRow:
    """A row from the values of `FIELDS` and its sequence."""
    decoded: list[Any] = [decode_text(v) if isinstance(v, str) else v for v in values]
    return LogRow(**dict(zip((*FIELDS, "sequence"), decoded, strict=True)))


def _read_size(sql: SqlConnection) -> tuple[int, int]:
    rows, size = sql.execute(_SIZE).fetchone() or (0, 0)
    return int(rows), int(size)


def _rows_over(sql: SqlConnection, max_rows: int | None, max_bytes: int | None) -> int:
    """How many of the oldest rows to delete now."""
    if max_rows is None and max_bytes is None:
        return 0
    rows, size = _read_size(sql)
    if max_rows is not None and rows > max_rows:
        return min(MAX_PRUNED_AT_ONCE, rows - max_rows)
    return MAX_PRUNED_AT_ONCE if max_bytes is not None and size > max_bytes else 0


def _filter_condition(where: LogFilter) -> tuple[str, list[object]]:
    """The filter as SQL; the planner chooses the most selective index by its statistics."""
    names = ("parent", "session", "tool", "outcome", "server", "principal", "kind")
    terms: list[tuple[str, tuple[object, ...]]] = [
        (f"{name} = %s", (encode_text(value),)) for name in names if (value := getattr(where, name))
    ]
    if where.session_prefix:
        prefix = encode_text(where.session_prefix)
        terms.append(("session >= %s AND session < %s", (prefix, prefix + _END)))
    if where.is_open is not None:
        terms.append((f"outcome IS {'' if where.is_open else 'NOT '}NULL", ()))
    for term, bound in (("time >= %s", where.since), ("time < %s", where.until)):
        if bound is not None:
            terms.append((term, (bound,)))
    for term, bound in (("sequence > %s", where.after), ("sequence < %s", where.before)):
        if bound:
            terms.append((term, (bound,)))
    condition = " AND ".join(text for text, _ in terms) or "TRUE"
    return condition, [value for _, values in terms for value in values]
