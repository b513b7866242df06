"""A log in memory that lives as long as its process."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from threading import Lock

from ..errors import StoreError
from .log_contract import EVERY_ROW, MAX_PRUNED_AT_ONCE, LogFilter, LogRow, LogSize

# The approximate size of a row without its data and vector.
_ROW_BYTES = 400


class MemoryLog:
    """Keeps rows in this process; thread-safe."""

    def __init__(self) -> None:
        self._rows: dict[str, LogRow] | None = {}
        self._sequence = 0
        self._bytes = 0
        self._lock = Lock()

    def append(self, row: LogRow) -> bool:
        """Add a row; False if there is one with its id already."""
        with self._lock:
            rows = self._require_open()
            if row.id in rows:
                return False
            self._sequence += 1
            rows[row.id] = replace(row, sequence=self._sequence)
            self._bytes += _row_bytes(row)
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
        with self._lock:
            rows = self._require_open()
            row = rows.get(id)
            if row is None or row.outcome is not None:
                return False
            rows[id] = replace(row, outcome=outcome, took_ms=took_ms, parent=parent or row.parent)
            return True

    def read(
        self,
        where: LogFilter = EVERY_ROW,
        *,
        limit: int = 100,
        is_newest_first: bool = True,
    ) -> tuple[LogRow, ...]:
        """Rows in the order of their sequence."""
        with self._lock:
            rows = self._require_open().values()
            ordered = reversed(rows) if is_newest_first else iter(rows)
            return tuple(islice(_matching(ordered, where), limit))

    def find(self, prefix: str, *, limit: int = 2) -> tuple[LogRow, ...]:
        """Rows whose id begins with this text, in the order of their ids."""
        with self._lock:
            rows = self._require_open()
            ids = sorted(rows)
            found = islice(ids, bisect_left(ids, prefix), None)
            return tuple(rows[id] for id in islice(found, limit) if id.startswith(prefix))  # noqa: A001 - as rows call it

    def prune(
        self,
        *,
        older_than: float | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
    ) -> int:
        """Delete some of the oldest rows beyond these limits; 0 when all is within them."""
        with self._lock:
            rows = self._require_open()
            over = 0 if max_rows is None else len(rows) - max_rows
            chosen = (
                row.id
                for number, row in enumerate(rows.values())
                if number < over or (older_than is not None and row.time < older_than)
            )
            old = list(islice(chosen, MAX_PRUNED_AT_ONCE))
            if not old and max_bytes is not None and self._bytes > max_bytes:
                old = list(islice(rows, MAX_PRUNED_AT_ONCE))
            for id in old:  # noqa: A001 - as rows call it
                self._bytes -= _row_bytes(rows.pop(id))
            return len(old)

    def count(self, where: LogFilter = EVERY_ROW) -> int:
        """How many rows match."""
        with self._lock:
            return sum(1 for _ in _matching(self._require_open().values(), where))

    def size(self) -> LogSize:
        """How many rows there are and how much space they take."""
        with self._lock:
            return LogSize(rows=len(self._require_open()), bytes=self._bytes)

    def set_aside(self) -> str:
        """Memory is never damaged: nothing to do."""
        return ""

    def close(self) -> None:
        """Drop all rows; a closed log raises StoreError."""
        with self._lock:
            self._rows = None

    def _require_open(self) -> dict[str, LogRow]:
        if self._rows is None:
            raise StoreError("The log is closed.", hint="Open a new one.")
        return self._rows


def _row_bytes(row: LogRow) -> int:
    return _ROW_BYTES + len(row.data) + len(row.vector)


def _matching(rows: Iterable[LogRow], where: LogFilter) -> Iterator[LogRow]:
    return (row for row in rows if _has_values(row, where) and _is_within(row, where))


def _has_values(row: LogRow, where: LogFilter) -> bool:
    return (
        where.kind in ("", row.kind)
        and where.session in ("", row.session)
        and row.session.startswith(where.session_prefix)
        and where.principal in ("", row.principal)
        and where.tool in ("", row.tool)
        and where.server in ("", row.server)
        and where.parent in ("", row.parent)
        and where.outcome in ("", row.outcome)
        and where.is_open in (None, row.outcome is None)
    )


def _is_within(row: LogRow, where: LogFilter) -> bool:
    return (
        (where.since is None or row.time >= where.since)
        and (where.until is None or row.time < where.until)
        and row.sequence > where.after
        and (not where.before or row.sequence < where.before)
    )
