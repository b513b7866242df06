"""The contract of every log store: rows that are appended, completed once, read and pruned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

MAX_PRUNED_AT_ONCE = 200
"""How many rows one `prune` deletes at most, so that no writer waits long for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """One thing that happened. `outcome` is None while it is running.

    `sequence` counts the rows in the order in which they were appended; 0 means not stored yet.
    `data` is a JSON object with all other facts.
    """

    id: str
    time: float
    kind: str
    parent: str = ""
    session: str = ""
    principal: str = ""
    client: str = ""
    tool: str = ""
    server: str = ""
    outcome: str | None = None
    took_ms: float | None = None
    process: str = ""
    data: str = "{}"
    vector: bytes = b""
    sequence: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """Selects rows; an empty field matches every row."""

    kind: str = ""
    session: str = ""
    session_prefix: str = ""
    principal: str = ""
    tool: str = ""
    server: str = ""
    parent: str = ""
    outcome: str = ""
    is_open: bool | None = None
    """True: only rows without an outcome; False: only rows with one."""
    since: float | None = None
    """Rows of this time or later."""
    until: float | None = None
    """Rows before this time."""
    after: int = 0
    """Rows appended after the row with this sequence."""
    before: int = 0
    """Rows appended before the row with this sequence; 0 means no bound."""


EVERY_ROW = LogFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSize:
    """How much a log store holds."""

    rows: int
    bytes: int


class LogStore(Protocol):
    """Keeps rows in the order in which they were appended.

    Several processes may use one log. Failures raise StoreError and change nothing.
    """

    def append(self, row: LogRow) -> bool:
        """Add a row; False if there is one with its id already."""
        ...

    def complete(
        self,
        id: str,  # noqa: A002 - as rows call it
        *,
        outcome: str,
        took_ms: float | None = None,
        parent: str = "",
    ) -> bool:
        """Set the outcome of a row that has none yet; whether there was one."""
        ...

    def read(
        self,
        where: LogFilter = EVERY_ROW,
        *,
        limit: int = 100,
        is_newest_first: bool = True,
    ) -> tuple[LogRow, ...]:
        """Rows in the order of their sequence; the next page is `after` or `before` the last."""
        ...

    def find(self, prefix: str, *, limit: int = 2) -> tuple[LogRow, ...]:
        """Rows whose id begins with this text, in the order of their ids."""
        ...

    def prune(
        self,
        *,
        older_than: float | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
    ) -> int:
        """Delete some of the oldest rows beyond these limits; 0 when all is within them.

        One call deletes at most `MAX_PRUNED_AT_ONCE` rows: repeat it until it returns 0. It also
        does the upkeep that a store needs now and then, so it should be called even without limits.
        """
        ...

    def count(self, where: LogFilter = EVERY_ROW) -> int:
        """How many rows match."""
        ...

    def size(self) -> LogSize:
        """How many rows there are and how much space they take."""
        ...

    def set_aside(self) -> str:
        """After DamagedStoreError: keep the damaged log under another name, which is returned.

        The log is empty afterwards. An empty answer means that another process has done it.
        """
        ...

    def close(self) -> None:
        """Release all files; a closed log raises StoreError."""
        ...
