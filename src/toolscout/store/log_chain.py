"""A hash chain over the rows of a log: every link includes the hash of the link before it."""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from ..errors import ConfigError, StoreError
from .chain_marker import has_marker, write_marker
from .log_contract import LogRow

FIRST_HASH = bytes(32)
"""What the first link of a chain has in place of the hash of a link before it."""

LinkKind = Literal["start", "row", "outcome", "removed", "stop"]
"""A row was added or got its outcome, rows were removed, or the chain was switched on or off."""

# Everything in a row but its sequence, which the link has.
_HASHED_FIELDS = (
    "id", "parent", "kind", "session", "principal", "client", "tool", "server", "outcome",
    "process", "data",
)  # fmt: skip
_LOST_DATA = '{"lost":true}'
_KEY_ID_CHARS = 16
_MIN_KEY_CHARS = 16
_NAMES = ("position", "kind", "row", "digest", "data", "key", "hash")
_COLUMNS = ", ".join(_NAMES)
_LAST = f"SELECT {_COLUMNS} FROM chain ORDER BY position DESC LIMIT 1"  # noqa: S608 - constants
_ADD = f"INSERT INTO chain ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constants
_LAST_REMOVAL = (
    f"SELECT {_COLUMNS} FROM chain WHERE kind = 'removed' ORDER BY position DESC LIMIT 1"  # noqa: S608 - constants
)
# The links before the first one that still says something about a row in the log are not needed.
_FIRST_NEEDED = """SELECT position FROM chain AS link WHERE CASE kind
    WHEN 'row' THEN EXISTS (SELECT 1 FROM log WHERE sequence = link.row)
    WHEN 'outcome' THEN EXISTS (SELECT 1 FROM log WHERE sequence = link.row)
    WHEN 'start' THEN EXISTS (SELECT 1 FROM log WHERE sequence <= link.row)
    ELSE FALSE END ORDER BY position LIMIT 1"""
_LAST_SEQUENCE = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'log'"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions:
    """Whether a log is chained (None: as its file is) and the keys; the first one signs."""

    is_on: bool | None = None
    keys: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One link; `data` has what it says besides the row, as JSON."""

    position: int
    kind: LinkKind
    row: int
    digest: bytes
    data: str
    key: str
    hash: bytes

    @property
    def facts(self) -> dict[str, Any]:
        """`data` as values; none if somebody wrote something else there."""
        try:
            facts: Any = json.loads(self.data)
        except ValueError:
            return {}
        return cast("dict[str, Any]", facts) if isinstance(facts, dict) else {}

    @property
    def base(self) -> tuple[int, bytes]:
        """Position and hash of the link before the first one that was kept at this time."""
        try:
            position, text = self.facts["base"]
            return int(position), bytes.fromhex(text)
        except (KeyError, TypeError, ValueError):
            return 0, FIRST_HASH

    @property
    def removed_rows(self) -> list[tuple[int, int]]:
        """The first and the last of each range of rows that were deleted."""
        try:
            return [(int(first), int(end)) for first, end in self.facts["rows"]]
        except (KeyError, TypeError, ValueError):
            return []

    @property
    def is_after_loss(self) -> bool:
        """Whether the chain starts again because all links before are gone."""
        return self.kind == "start" and bool(self.facts.get("lost", False))

    @property
    def is_on(self) -> bool:
        """Whether rows after this link are in the chain."""
        return self.kind != "stop" and bool(self.facts.get("is_on", True))

    def expected_hash(self, previous: bytes, keys: Iterable[bytes]) -> bytes | None:
        """The hash that this link must have behind another; None if its key is unknown."""
        content = json.dumps([self.kind, self.row, self.digest.hex(), self.data, self.key])
        message = previous + content.encode()
        if not self.key:
            return hashlib.sha256(message).digest()
        for key in keys:
            if key_id(key) == self.key:
                return hmac.digest(key, message, "sha256")
        return None


def key_id(key: bytes) -> str:
    """A name for a key, which does not reveal it."""
    return hmac.digest(key, b"toolscout journal chain", "sha256").hex()[:_KEY_ID_CHARS]


def row_digest(row: LogRow) -> bytes:
    """The hash of everything in a row."""
    took_ms = None if row.took_ms is None else float(row.took_ms)
    values = [getattr(row, name) for name in _HASHED_FIELDS]
    text = json.dumps([*values, float(row.time), took_ms, row.vector.hex()])
    return hashlib.sha256(text.encode()).digest()


def links(sql: sqlite3.Connection) -> Iterator[Link]:
    """All links in their order."""
    for values in sql.execute(f"SELECT {_COLUMNS} FROM chain ORDER BY position"):  # noqa: S608 - constants
        yield _link(values)


def last_link(sql: sqlite3.Connection) -> Link | None:
    """The newest link; None if the log has no chain."""
    values = sql.execute(_LAST).fetchone()
    return None if values is None else _link(values)


class ChainWriter:
    """Adds links within the transaction of the change that they record."""

    def __init__(self, options: ChainOptions, *, log: Path | None = None) -> None:
        self._log = log
        self._is_marked = log is None
        self._is_wanted = options.is_on
        self._keys = options.keys
        self._key_ids = {key_id(key) for key in options.keys}
        self._own_id = key_id(options.keys[0]) if options.keys else ""

    def prepare(self, sql: sqlite3.Connection) -> Link | None:
        """Start or stop the chain as the setting says; the link to continue, None without one."""
        last = last_link(sql)
        if last is None:
            return self._start_chain(sql) if self._is_wanted else None
        self._mark()
        self._require_key(last)
        is_wanted = last.is_on if self._is_wanted is None else self._is_wanted
        # A key is added to a chain without one by a new start, so that the change is visible.
        if is_wanted and (not last.is_on or (self._own_id and not last.key)):
            return self._add(sql, last, "start", _last_sequence(sql))
        if not is_wanted and last.is_on:
            return self._add(sql, last, "stop", _last_sequence(sql))
        return last

    def _start_chain(self, sql: sqlite3.Connection) -> Link:
        # A chain never loses all its links by itself: somebody deleted them, or the file.
        is_lost = self._log is not None and has_marker(self._log)
        data = _LOST_DATA if is_lost else "{}"
        return self._add(sql, None, "start", _last_sequence(sql), data=data)

    def _mark(self) -> None:
        # Only once a link is committed: a process that is killed before leaves no marker.
        if not self._is_marked and self._log is not None:
            write_marker(self._log)
            self._is_marked = True

    def add_row(self, sql: sqlite3.Connection, last: Link, row: LogRow, *, sequence: int) -> None:
        """Record a new row, unless the chain is off."""
        if last.is_on:
            self._add(sql, last, "row", sequence, row_digest(row))

    def add_outcome(self, sql: sqlite3.Connection, last: Link, row: LogRow) -> None:
        """Record a row that has got its outcome.

        Even while the chain is off: the row may be from before, and is no longer what was recorded.
        """
        data = "{}" if last.is_on else '{"is_on":false}'
        self._add(sql, last, "outcome", row.sequence, row_digest(row), data=data)

    def add_removal(self, sql: sqlite3.Connection, sequences: Iterable[int], *, why: str) -> None:
        """Record rows that were deleted, and drop the links that this makes unnecessary."""
        last = last_link(sql)
        if last is None:
            return
        self._require_key(last)
        facts = {
            "why": why,
            "rows": _ranges(sequences),
            "is_on": last.is_on,
            "base": _drop_first_links(sql, before=last.position + 1),
        }
        data = json.dumps(facts, separators=(",", ":"))
        self._add(sql, last, "removed", _last_sequence(sql), data=data)

    def _require_key(self, last: Link) -> None:
        if last.key and last.key not in self._key_ids:
            raise StoreError(
                "The journal has a hash chain with a key that this process does not have.",
                hint="Set journal_key as for the other processes that write this journal.",
            )

    def _add(
        self,
        sql: sqlite3.Connection,
        last: Link | None,
        kind: LinkKind,
        row: int,
        digest: bytes = b"",
        *,
        data: str = "{}",
    ) -> Link:
        link = Link(
            position=last.position + 1 if last else 1,
            kind=kind,
            row=row,
            digest=digest,
            data=data,
            key=self._own_id,
            hash=b"",
        )
        value = link.expected_hash(last.hash if last else FIRST_HASH, self._keys)
        assert value is not None
        link = replace(link, hash=value)
        sql.execute(_ADD, tuple(getattr(link, name) for name in _NAMES))
        return link


def _link(values: tuple[Any, ...]) -> Link:
    return Link(**dict(zip(_NAMES, values, strict=True)))


def _last_sequence(sql: sqlite3.Connection) -> int:
    (sequence,) = sql.execute(_LAST_SEQUENCE).fetchone()
    return int(sequence)


def _drop_first_links(sql: sqlite3.Connection, *, before: int) -> tuple[int, str]:
    """Delete the links whose rows are all gone; position and hash of the last one deleted ever."""
    found = sql.execute(_FIRST_NEEDED).fetchone()
    first = found[0] if found else before
    dropped = sql.execute(
        "SELECT position, hash FROM chain WHERE position < ? ORDER BY position DESC LIMIT 1",
        (first,),
    ).fetchone()
    position, value = dropped or chain_base(sql)
    sql.execute("DELETE FROM chain WHERE position < ?", (first,))
    return position, value.hex()


def chain_base(sql: sqlite3.Connection) -> tuple[int, bytes]:
    """Position and hash of the link before the first one that is kept."""
    found = sql.execute(_LAST_REMOVAL).fetchone()
    return _link(found).base if found else (0, FIRST_HASH)


def _ranges(sequences: Iterable[int]) -> list[list[int]]:
    """Numbers as ranges with their ends: 1, 2, 3, 7 as [1, 3], [7, 7]."""
    ranges: list[list[int]] = []
    for sequence in sorted(sequences):
        if ranges and sequence == ranges[-1][1] + 1:
            ranges[-1][1] = sequence
        else:
            ranges.append([sequence, sequence])
    return ranges


def read_keys(place: str, environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """The keys at `env:NAME` or `file:PATH`, one on each line; no place, no keys."""
    if not place:
        return ()
    scheme, _, name = place.partition(":")
    match scheme:
        case "env" if name:
            text = environment.get(name, "")
        case "file" if name:
            text = _read_file(name)
        case _:
            raise ConfigError(
                "journal_key does not say where the key is.", hint="Write env:NAME or file:PATH."
            )
    keys = tuple(line.strip().encode() for line in text.splitlines() if line.strip())
    if not keys or min(map(len, keys)) < _MIN_KEY_CHARS:
        raise ConfigError(
            f"The key of the journal's hash chain at {place} is missing or shorter than"
            f" {_MIN_KEY_CHARS} characters.",
            hint="Make one: openssl rand -hex 32",
        )
    return keys


def _read_file(name: str) -> str:
    try:
        return Path(name).expanduser().read_text(encoding="utf-8")
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"The key of the journal's hash chain cannot be read: {error}.",
            hint="Set journal_key to env:NAME or file:PATH.",
        ) from error
