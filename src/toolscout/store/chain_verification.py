"""Verify the hash chain of a log: which row was changed, removed, inserted or moved."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ..errors import StoreError
from .chain_marker import has_marker
from .log_chain import Link, chain_base, last_link, links, row_digest
from .log_contract import LogRow
from .sqlite import translate_errors
from .sqlite_log import SqliteLog, rows_in_order

MAX_PROBLEMS = 20
"""How many problems are listed; more are only counted."""
_NO_END = 1 << 62
_ALL_LINKS_REMOVED = "removed: all links. The journal had a hash chain, and has none."

Damage = Literal["changed", "removed", "inserted", "reordered", "truncated", "replaced", "unsigned"]

_MEANINGS: dict[Damage, str] = {
    "changed": "Its content is not what was recorded.",
    "removed": "It was recorded and is gone, and no retention or erasure recorded that.",
    "inserted": "It was added without the chain.",
    "reordered": "It was recorded at another place.",
    "truncated": "The newest rows of the journal are gone.",
    "replaced": "The journal is not the one whose head was stored, or was written again.",
    "unsigned": "It has no key although the links before it have one.",
}


class ChainMissingError(StoreError):
    """A journal or its hash chain is gone although there was one."""


class ChainHead(BaseModel):
    """The newest link of a chain; stored elsewhere, it shows later whether anything was cut off."""

    model_config = ConfigDict(frozen=True)

    position: int = Field(ge=1)
    hash: str = Field(pattern=r"^[0-9a-f]{64}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainProblem:
    """The first sign of one change: where, what happened, and what it means."""

    what: Damage
    where: str
    sequence: int = 0
    id: str = ""

    @property
    def meaning(self) -> str:
        """What happened, as a sentence."""
        return _MEANINGS[self.what]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReport:
    """What a verification found."""

    head: ChainHead
    links: int
    unsigned_links: int
    rows: int
    """Rows that the chain covers."""
    uncovered_rows: int
    """Rows that were written while the chain was off."""
    removed_rows: int
    """Rows whose deletion the chain records."""
    problems: tuple[ChainProblem, ...]
    problem_count: int

    @property
    def is_intact(self) -> bool:
        """Whether everything is as it was recorded."""
        return not self.problem_count


def read_head(path: Path) -> ChainHead | None:
    """The head of a log's chain; None without a chain."""
    with _snapshot(path) as sql:
        last = last_link(sql)
    return None if last is None else _head(last)


def verify_chain(
    path: Path, *, keys: Iterable[bytes] = (), since: ChainHead | None = None
) -> ChainReport:
    """Compare every row with its link, every link with the one before, and all with a head."""
    was_chained = since is not None or has_marker(path)
    if was_chained:
        _require_tables(path)
    with _snapshot(path) as sql:
        return _Verification(sql, tuple(keys), was_chained=was_chained).run(since)


def _require_tables(path: Path) -> None:
    """Raise if a table of a journal that had a hash chain was dropped."""
    with translate_errors(path), closing(sqlite3.connect(path)) as sql:
        found = {name for (name,) in sql.execute("SELECT name FROM sqlite_master")}
        if "log" not in found:
            raise ChainMissingError("removed: all rows. The journal has no table of rows.")
        if "chain" not in found:
            raise ChainMissingError(_ALL_LINKS_REMOVED)


@contextmanager
def _snapshot(path: Path) -> Generator[sqlite3.Connection]:
    """A connection whose readings are all of one moment, while others write."""
    with closing(SqliteLog(path)) as log:
        log.count()  # brings a file of an older version up to date
    with translate_errors(path), closing(sqlite3.connect(path, isolation_level=None)) as sql:
        sql.execute("BEGIN")
        yield sql


@dataclass(slots=True)
class _Record:
    """What the chain says of the rows."""

    digests: dict[int, bytes] = field(default_factory=dict[int, bytes])
    removed: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    off: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    last_row: int = 0


class _Verification:
    def __init__(
        self, sql: sqlite3.Connection, keys: tuple[bytes, ...], *, was_chained: bool
    ) -> None:
        self._sql = sql
        self._was_chained = was_chained
        self._keys = keys
        self._record = _Record()
        self._problems: list[ChainProblem] = []
        self._count = 0
        self._links = 0
        self._unsigned = 0

    def run(self, since: ChainHead | None) -> ChainReport:
        last = last_link(self._sql)
        if last is None and self._was_chained:
            raise ChainMissingError(_ALL_LINKS_REMOVED)
        if last is None:
            raise StoreError(
                "The journal has no hash chain.", hint="Switch it on: journal_chain = true."
            )
        self._check_links(since)
        rows, uncovered = self._check_rows()
        if since is not None:
            self._check_end(since, last)
        return ChainReport(
            head=_head(last),
            links=self._links,
            unsigned_links=self._unsigned,
            rows=rows,
            uncovered_rows=uncovered,
            removed_rows=sum(end - first + 1 for first, end in self._record.removed),
            problems=tuple(self._problems),
            problem_count=self._count,
        )

    # Links

    def _check_links(self, since: ChainHead | None) -> None:
        position, previous = chain_base(self._sql)
        key = ""
        off_since: int | None = None
        for link in links(self._sql):
            if not self._links:
                off_since = None if _is_on_before(link) else 0
            is_next = link.position == position + 1
            if not is_next:
                self._add("removed", f"links {position + 1} to {link.position - 1}")
            if key and not link.key:
                self._add("unsigned", f"link {link.position}", link.row)
            if is_next:
                self._check_hash(link, previous)
            if since is not None and since.position == link.position:
                self._compare(since, link.hash)
            if link.is_after_loss:
                self._add("removed", f"all links before link {link.position}", link.row)
            self._links += 1
            self._unsigned += not link.key
            off_since = self._note(link, off_since)
            position, previous, key = link.position, link.hash, link.key or key
        if off_since is not None:
            self._record.off.append((off_since, _NO_END))

    def _check_hash(self, link: Link, previous: bytes) -> None:
        expected = link.expected_hash(previous, self._keys)
        if expected is None:
            raise StoreError(
                "The hash chain of the journal has a key that is not given here.",
                hint="Set journal_key as for the process that writes the journal; after a change of"
                " the key, keep the old one on a line below the new one.",
            )
        if expected != link.hash:
            is_elsewhere = any(
                link.expected_hash(other.hash, self._keys) == link.hash
                for other in links(self._sql)
            )
            what: Damage = "reordered" if is_elsewhere else "changed"
            self._add(what, f"link {link.position}", link.row)

    def _note(self, link: Link, off_since: int | None) -> int | None:
        """Take over what a link says; from which row on the chain is off, None while it is on."""
        record = self._record
        record.last_row = max(record.last_row, link.row)
        match link.kind:
            case "row" | "outcome":
                record.digests[link.row] = link.digest
            case "removed":
                record.removed += link.removed_rows
            case "stop":
                return link.row
            case "start":
                if off_since is not None:
                    record.off.append((off_since, link.row))
                return None
        return off_since

    # Rows

    def _check_rows(self) -> tuple[int, int]:
        record = self._record
        covered = uncovered = 0
        unseen = dict.fromkeys(record.digests)
        removed = _Ranges(record.removed)
        off = _Ranges((first + 1, end) for first, end in record.off)
        for row in rows_in_order(self._sql):
            digest = record.digests.get(row.sequence)
            unseen.pop(row.sequence, None)
            if digest is None and row.sequence in off:
                uncovered += 1
                continue
            covered += 1
            self._check_row(row, digest, is_removed=row.sequence in removed)
        for sequence in unseen:
            if sequence not in removed:
                self._add("removed", f"row {sequence}", sequence)
        self._check_last_row()
        return covered, uncovered

    def _check_row(self, row: LogRow, digest: bytes | None, *, is_removed: bool) -> None:
        where = f"row {row.sequence} ({row.id})"
        if digest is None or is_removed:
            self._add("inserted", where, row.sequence, row.id)
            return
        try:
            actual = row_digest(row)
        except (AttributeError, TypeError, ValueError):  # a value of another type
            actual = b""
        if actual != digest:
            is_elsewhere = actual in self._record.digests.values()
            what: Damage = "reordered" if is_elsewhere else "changed"
            self._add(what, where, row.sequence, row.id)

    def _check_last_row(self) -> None:
        """SQLite counts rows by itself: a plain deletion at the end leaves that count."""
        found = self._sql.execute("SELECT seq FROM sqlite_sequence WHERE name = 'log'").fetchone()
        last = int(found[0]) if found else 0
        is_off = any(end == _NO_END for _, end in self._record.off)
        if last > self._record.last_row and not is_off:
            self._add("truncated", f"after row {self._record.last_row}", last)

    # The head that was stored elsewhere

    def _check_end(self, since: ChainHead, last: Link) -> None:
        base, value = chain_base(self._sql)
        if since.position > last.position:
            self._add("truncated", f"after link {last.position} of {since.position}", last.row)
        elif since.position == base:
            self._compare(since, value)
        elif since.position < base:
            raise StoreError(
                "The stored head is older than the oldest row of the journal, so the two cannot"
                " be compared.",
                hint="Store the head more often than rows are deleted (journal_days).",
            )

    def _compare(self, since: ChainHead, actual: bytes) -> None:
        if bytes.fromhex(since.hash) != actual:
            self._add("replaced", f"link {since.position}")

    def _add(self, what: Damage, where: str, sequence: int = 0, id: str = "") -> None:  # noqa: A002 - as rows call it
        self._count += 1
        if len(self._problems) < MAX_PROBLEMS:
            problem = ChainProblem(what=what, where=where, sequence=sequence, id=id)
            self._problems.append(problem)


class _Ranges:
    """Whether numbers are in one of many ranges."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._ranges = sorted(ranges)
        self._firsts = [first for first, _ in self._ranges]

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._firsts, number) - 1
        return place >= 0 and number <= self._ranges[place][1]


def _is_on_before(first: Link) -> bool:
    """Whether the chain was on before the first link that is kept."""
    return first.kind == "stop" or (first.kind != "start" and first.is_on)


def _head(link: Link) -> ChainHead:
    return ChainHead(position=link.position, hash=link.hash.hex())
