"""The replay buffer: observations in a store, shared by all processes that learn."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ..errors import StoreError
from ..events import new_id
from ..store.contract import Clock, Store
from .observation import Observation, by_age, parse_observation
from .training import MIN_WEIGHT, age_weights, select_calls

FORMAT = 1
SPACE = "learning"
"""The space of a store that has the learned state."""

MAX_ROWS = 8_192
"""How many observations are kept."""

_SEGMENT_ROWS = 64
# Room for what other models have learned, too.
_MAX_SEGMENTS = 512
# A head that names more segments is damaged: reading them all would not end.
_MAX_RANGE = 2 * _MAX_SEGMENTS
_MAX_NUMBER = 2**53
_HEAD = "head"
_SEGMENT_KEY = re.compile("rows:([0-9]{1,15})")
_RETRIES = 50
# Computers that share a store have slightly different clocks.
_MAX_AHEAD_SECONDS = 3_600.0
_DAMAGE = (ValueError, KeyError, TypeError, OverflowError, RecursionError)
"""What reading a record raises that somebody else wrote or cut off."""


@dataclass(frozen=True, slots=True)
class Head:
    """The record that every write changes: which segments there are, and what was counted.

    `epoch` counts removals, after which all segments have to be read again. `reset` is an id of the
    last reset and `cleared` its time by the clock of its process, which may be wrong.
    """

    first: int = 0
    last: int = 0
    epoch: int = 0
    rows: int = 0
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    cleared: float = 0.0
    reset: str = ""

    def to_text(self) -> str:
        """The head as it is stored."""
        parts = {
            name: getattr(self, name)
            for name in ("first", "last", "epoch", "rows", "cleared", "reset")
        }
        return json.dumps({"format": FORMAT, **parts, "counts": dict(self.counts)})


@dataclass(frozen=True, slots=True)
class _Segment:
    """Up to 64 observations of one model; `version` is that of its record.

    `ignored` counts observations that cannot be read; `is_damaged` says that none can.
    """

    version: int = 0
    model: str = ""
    dimensions: int = 0
    rows: tuple[Observation, ...] = ()
    ignored: int = 0
    is_damaged: bool = False


class ReplayBuffer:
    """Reads and writes the observations of one embedding model.

    Every process appends to the last segment, with a version, and repeats the change if another
    was first. State that cannot be read, or that another model made, is not used; `problems` says
    so.
    """

    def __init__(
        self, store: Store, *, model: str, dimensions: int, max_rows: int = MAX_ROWS
    ) -> None:
        self._store = store
        self._max_rows = max_rows
        self.model = model
        self._dimensions = dimensions
        self._segments: dict[int, _Segment] = {}
        self._seen = (-1, -1)
        self.problems: dict[str, str] = {}

    def fork(self) -> ReplayBuffer:
        """The same state for another thread."""
        return ReplayBuffer(self._store, model=self.model, dimensions=self._dimensions)

    # Reading

    def read(self) -> tuple[Observation, ...]:
        """All observations of this model, read again where another process changed them."""
        head, version = self._read_head()
        if (version, head.epoch) != self._seen:
            is_same = self._seen[1] == head.epoch
            known = self._segments if is_same else {}
            if not is_same:  # what was damaged may be gone
                self.problems = {k: v for k, v in self.problems.items() if k == _HEAD}
            # Before the last segment nothing changes without a new epoch.
            settled = max(known, default=head.first)
            self._segments = {
                number: known[number]
                if number in known and number < settled
                else self._read_segment(number)
                for number in range(head.first, head.last + 1)
            }
            self._seen = version, head.epoch
            self._check_missing(head, version)
        mine = (self._segments[n] for n in sorted(self._segments))
        return tuple(row for segment in mine if self._is_mine(segment) for row in segment.rows)

    def _check_missing(self, head: Head, version: int) -> None:
        """Report segments that the head names and that are not there."""
        # A head without rows names the segment that the next observation begins.
        missing = [n for n, segment in self._segments.items() if head.rows and not segment.version]
        # A process that changes the head may have removed them since.
        if missing and self._read_head()[1] == version:
            for number in missing:
                self._ignore(number, "it is missing")

    def has_changed(self) -> bool:
        """Whether another process has written since the last reading."""
        return self._read_head()[1] != self._seen[0]

    def counts(self) -> Mapping[str, int]:
        """What was counted, such as the calls of shadow mode."""
        return self._read_head()[0].counts

    # Writing

    def append(
        self, rows: Sequence[Observation], *, counts: Mapping[str, int] | None = None
    ) -> None:
        """Add observations and counts; the oldest that no longer count are dropped."""
        todo = tuple(rows)
        for _ in range(_RETRIES + len(rows)):
            todo = self._append_some(todo) if todo else ()
        if todo:
            raise _busy()
        added = Counter(counts or {})
        head = self._update_head(
            lambda h: replace(h, rows=h.rows + len(rows), counts={**Counter(h.counts) + added})
        )
        if head.rows > self._max_rows or head.last - head.first >= _MAX_SEGMENTS:
            self.compact()

    def _append_some(self, rows: tuple[Observation, ...]) -> tuple[Observation, ...]:
        """Write what fits into the last segment, or begin the next one; the rest."""
        last = self._read_head()[0].last
        number, segment = last, self._read_segment(last)
        if not self._has_room(segment):
            number, segment = last + 1, self._read_segment(last + 1)
        if self._has_room(segment):
            room = _SEGMENT_ROWS - len(segment.rows)
            mine = replace(segment, model=self.model, dimensions=self._dimensions)
            if not self._put_segment(number, replace(mine, rows=(*segment.rows, *rows[:room]))):
                return rows
            rows = rows[room:]
        if number > last:  # after the segment: one that the head names is there
            self._update_head(lambda head: replace(head, last=max(head.last, number)))
        return rows

    def _has_room(self, segment: _Segment) -> bool:
        # Observations that cannot be read stay unchanged, and stay reported.
        is_whole = self._is_mine(segment) and not segment.ignored
        return is_whole and len(segment.rows) < _SEGMENT_ROWS

    def _is_mine(self, segment: _Segment) -> bool:
        is_new = segment.version == 0
        is_same = (segment.model, segment.dimensions) == (self.model, self._dimensions)
        return (is_new or is_same) and not segment.is_damaged

    def remove(self, change: Callable[[Observation], Observation | None]) -> int:
        """Change or remove observations of all models; how many were affected.

        State that cannot be read is removed as a whole, since it may contain what has to go.
        """
        return self._change(change, keeps_damaged=False)

    def _change(
        self, change: Callable[[Observation], Observation | None], *, keeps_damaged: bool
    ) -> int:
        head, _ = self._read_head()
        numbers = range(head.first, head.last + 1)
        affected = sum(self._filter(n, change, keeps_damaged=keeps_damaged) for n in numbers)
        self._update_head(lambda h: replace(h, epoch=h.epoch + 1))
        return affected

    def bound_times(self, now: float) -> int:
        """Give observations of a clock that was ahead the present time; how many there were.

        They would stay the newest, and so count in full, until the clock has caught up.
        """
        if not any(_is_ahead(row, now) for row in self.read()):
            return 0
        return self._change(
            lambda row: replace(row, time=now) if _is_ahead(row, now) else row, keeps_damaged=True
        )

    def last_reset(self) -> tuple[str, float]:
        """The id of the last reset, empty for none, and its time by the clock of its process."""
        head, _ = self._read_head()
        return head.reset, head.cleared

    def clear(self, *, clock: Clock = time.time) -> int:
        """Remove everything, also what open turns would add; how many observations there were."""
        count = len(self.read())
        before, now = self._read_head()[0], clock()
        after = self._update_head(
            lambda h: Head(h.last + 1, h.last + 1, h.epoch + 1, cleared=now, reset=new_id())
        )
        for number in range(before.first, after.first):
            self._store.delete(_segment_key(number))
        return count

    def compact(self) -> None:
        """Drop what no longer counts, and then the oldest of the principals with the most."""
        rows = self.read()
        kept = retained_ids(rows, at_most=3 * self._max_rows // 4)
        self.remove(lambda row: row if row.id in kept else None)
        head, _ = self._read_head()
        first = max(head.first, head.last - _MAX_SEGMENTS // 2)
        numbers = range(first, head.last)
        start = next((n for n in numbers if self._read_segment(n).rows), head.last)
        self._update_head(lambda h: replace(h, first=max(h.first, start), rows=len(kept)))
        for number in range(head.first, start):
            self._store.delete(_segment_key(number))

    def _filter(
        self,
        number: int,
        change: Callable[[Observation], Observation | None],
        *,
        keeps_damaged: bool,
    ) -> int:
        for _ in range(_RETRIES):
            segment = self._read_segment(number)
            changed = [change(row) for row in segment.rows]
            after = tuple(row for row in changed if row is not None)
            is_clean = keeps_damaged or not (segment.is_damaged or segment.ignored)
            if after == segment.rows and is_clean:
                return 0
            if self._put_segment(number, replace(segment, rows=after)):
                pairs = zip(changed, segment.rows, strict=True)
                lost = segment.ignored + segment.is_damaged
                return sum(row is not old for row, old in pairs) + lost
        raise _busy()

    # Records

    def _read_segment(self, number: int) -> _Segment:
        record = self._store.get(_segment_key(number))
        if record is None:
            return _Segment()
        try:
            values = _read_object(record.text)
            model, dimensions = str(values["model"]), int(values["dimensions"])
            rows, errors = _parse_rows(values["rows"], dimensions)
        except _DAMAGE as error:
            self._ignore(number, str(error))
            return _Segment(record.version, self.model, self._dimensions, is_damaged=True)
        if errors:
            of_all = f"{len(errors)} of {len(rows) + len(errors)} observations"
            self._ignore(number, f"{of_all} cannot be read; the first: {errors[0]}")
        else:
            self.problems.pop(_segment_key(number), None)
        if model != self.model:
            self.problems["model"] = f"What was learned with {model} is not used."
        return _Segment(record.version, model, dimensions, rows, ignored=len(errors))

    def _ignore(self, number: int, reason: str) -> None:
        key = _segment_key(number)
        self.problems[key] = f"Learned state was ignored ({key}): {reason}."

    def _put_segment(self, number: int, segment: _Segment) -> bool:
        values = {"format": FORMAT, "model": segment.model, "dimensions": segment.dimensions}
        text = json.dumps({**values, "rows": [row.to_json() for row in segment.rows]})
        put = self._store.put(_segment_key(number), text, expected=segment.version)
        return put is not None

    def _read_head(self) -> tuple[Head, int]:
        record = self._store.get(_HEAD)
        if record is None:
            return self._recover_head(), 0
        try:
            return _parse_head(record.text), record.version
        except _DAMAGE as error:
            self.problems[_HEAD] = f"The list of learned state was damaged and rebuilt: {error}."
            return self._recover_head(), record.version

    def _recover_head(self) -> Head:
        """A head for the segments that are there."""
        matches = [_SEGMENT_KEY.fullmatch(r.key) for r in self._store.list(limit=_MAX_RANGE)]
        numbers = sorted(int(match[1]) for match in matches if match)
        # Foreign keys may be far apart: the newest segments are those that are appended to.
        return (
            Head(max(numbers[0], numbers[-1] - _MAX_SEGMENTS), numbers[-1]) if numbers else Head()
        )

    def _update_head(self, change: Callable[[Head], Head]) -> Head:
        for _ in range(_RETRIES):
            head, version = self._read_head()
            after = change(head)
            if self._store.put(_HEAD, after.to_text(), expected=version) is not None:
                return after
        raise _busy()


def retained_ids(rows: Iterable[Observation], *, at_most: int) -> frozenset[str]:
    """The observations to keep: those that count, and of the rest of them the fairest choice."""
    ordered = sorted(rows, key=by_age)
    weights = dict(zip((row.id for row in ordered), age_weights(ordered), strict=True))
    counting = [row for row, _ in select_calls(ordered) if weights[row.id] >= MIN_WEIGHT]
    while len(counting) > at_most:
        # One principal that floods the buffer loses its own rows first.
        (most, count), *others = Counter(row.principal for row in counting).most_common(2)
        floor = others[0][1] if others else 0
        surplus = min(len(counting) - at_most, max(1, count - floor))
        oldest = {row.id for row in [r for r in counting if r.principal == most][:surplus]}
        counting = [row for row in counting if row.id not in oldest]
    return frozenset(row.id for row in counting)


def _parse_rows(rows: object, dimensions: int) -> tuple[tuple[Observation, ...], list[ValueError]]:
    """The observations of a segment, and why others cannot be read."""
    if not isinstance(rows, list):
        raise ValueError("its observations are not a list")  # noqa: TRY004 - as for all bad state
    good: list[Observation] = []
    errors: list[ValueError] = []
    for row in cast("list[object]", rows):
        try:
            good.append(parse_observation(row, dimensions=dimensions))
        except ValueError as error:
            errors.append(error)
    return tuple(good), errors


def _is_ahead(row: Observation, now: float) -> bool:
    return row.time > now + _MAX_AHEAD_SECONDS


def _segment_key(number: int) -> str:
    return f"rows:{number}"


def _parse_head(text: str) -> Head:
    values = _read_object(text)
    first, last, epoch, rows = (int(values[n]) for n in ("first", "last", "epoch", "rows"))
    counts = {str(k): int(v) for k, v in dict(values["counts"]).items()}
    is_possible = all(0 <= n <= _MAX_NUMBER for n in (first, last, epoch, rows, *counts.values()))
    if not is_possible or not first <= last <= first + _MAX_RANGE:
        raise ValueError("it has numbers that are not possible")
    cleared = float(values.get("cleared", 0.0))
    # Before resets had an id, their time was the only one.
    reset = str(values.get("reset", cleared or ""))
    return Head(first, last, epoch, rows, counts, cleared, reset)


def _read_object(text: str) -> dict[str, Any]:
    values: object = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 - one kind of error for bad state
    found = cast("dict[str, Any]", values)
    if found.get("format") != FORMAT:
        raise ValueError(f"its format is {found.get('format')!r} and not {FORMAT}")
    return found


def _busy() -> StoreError:
    return StoreError(
        "Learned state could not be written: other processes write to it all the time.",
        hint="Try again.",
    )
