"""Copy a store with all its spaces and its journal into another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import StoreError

BATCH_ROWS = 500
"""How many rows are in memory at a time."""

RECORDS = "records"
LOG = "log"
FILES = "files"
"""Large results in reports; they are copied one by one, since each may have many megabytes."""

COLUMNS = {
    RECORDS: ("sequence", "space", "key", "version", "text", "created", "updated"),
    LOG: (
        "sequence", "id", "parent", "time", "kind", "session", "principal", "client", "tool",
        "server", "outcome", "took_ms", "process", "data", "vector",
    ),
}  # fmt: skip
"""The columns of each table that is copied, the sequence first."""

TableRow = tuple[Any, ...]
RowProgress = Callable[[int, int], None]
"""Gets the number of rows that are done, and of all rows."""


class StoreTables(Protocol):
    """The tables of a store as rows; failures raise StoreError."""

    name: str
    """The store in messages, without its password."""

    @property
    def has_chain(self) -> bool:
        """Whether the journal has a hash chain, which is not copied."""
        ...

    def count(self) -> dict[str, int]:
        """How many rows there are: records by `records/SPACE`, and `log`."""
        ...

    def read(self, table: str, *, after: int, limit: int) -> Sequence[TableRow]:
        """Rows with a higher sequence, in its order."""
        ...

    def replace(self) -> AbstractContextManager[Callable[[str, Sequence[TableRow]], None]]:
        """Delete all rows, and write those that the block gives; all of it or nothing."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


@dataclass(frozen=True, slots=True)
class Copied:
    """How many rows were copied, by `records/SPACE` and `log`."""

    rows: dict[str, int]

    @property
    def total(self) -> int:
        """All rows."""
        return sum(self.rows.values())


def copy_tables(
    source: StoreTables,
    target: StoreTables,
    *,
    is_forced: bool = False,
    progress: RowProgress | None = None,
) -> Copied:
    """Copy all rows with their sequences; the target is complete or unchanged.

    A target with rows is replaced only if forced.
    """
    present = sum(target.count().values())
    if present and not is_forced:
        raise StoreError(
            f"The store {target.name} already has {present:,} rows.",
            hint="Nothing was changed. Replace them with --force, or name an empty store.",
        )
    expected = source.count()
    total, done = sum(expected.values()), 0
    with target.replace() as write:
        for table in COLUMNS:
            for batch in _read_batches(source, table):
                write(table, batch)
                done += len(batch)
                if progress is not None:
                    # A source in use may have grown since it was counted.
                    progress(done, max(done, total))
    return _verify(source, target, expected=expected)


def _read_batches(source: StoreTables, table: str) -> Iterator[Sequence[TableRow]]:
    after = 0
    while batch := source.read(table, after=after, limit=BATCH_ROWS):
        yield batch
        after = batch[-1][0]


def _verify(source: StoreTables, target: StoreTables, *, expected: dict[str, int]) -> Copied:
    copied, now = target.count(), source.count()
    if copied not in (expected, now):
        raise StoreError(
            f"The source changed while it was copied: {_describe(now)} there, {_describe(copied)}"
            f" in {target.name}.",
            hint="Stop the gateways that use it, and copy again with --force.",
        )
    return Copied(copied)


def _describe(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "no rows"
