"""Rows of the journal as conversations and turns: the order in which a person reads them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from ..errors import QueryError
from ..journal.reading import RUNNING, current_outcome, row_data
from ..store.log_contract import EVERY_ROW, LogFilter, LogRow, LogStore

PAGE_ROWS = 50
TURN_SECONDS = 600.0
"""After a pause of this length a new turn begins, as learning counts them."""

# What `record = "full"` adds to a row. Of a lost server it is the end of its error output.
_TEXT_KEYS = frozenset({"arguments", "query_texts"})
_HIDDEN_REASONS = frozenset({"lost"})


@dataclass(frozen=True, slots=True)
class ActivityTurn:
    """A search with what followed it, the oldest row first."""

    rows: tuple[LogRow, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns of one session on a page, the newest first; without a session, other rows."""

    session: str
    turns: tuple[ActivityTurn, ...]

    @property
    def newest(self) -> LogRow:
        """The row that came last."""
        return self.turns[0].rows[-1]


def group_rows(rows: Iterable[LogRow]) -> list[Conversation]:
    """Conversations in the order of their newest row."""
    by_session: dict[str, list[LogRow]] = {}
    for row in sorted(rows, key=lambda row: -row.sequence):
        by_session.setdefault(row.session, []).append(row)
    return [
        Conversation(session, tuple(_split_turns(found[::-1]))[::-1])
        for session, found in by_session.items()
    ]


def _split_turns(rows: Sequence[LogRow]) -> list[ActivityTurn]:
    """Rows, the oldest first, cut where a search follows a call, and at long pauses."""
    turns = [[rows[0]]]
    for before, row in pairwise(rows):
        is_new_search = row.kind == "search" and before.kind != "search"
        if is_new_search or row.time - before.time > TURN_SECONDS:
            turns.append([])
        turns[-1].append(row)
    return [ActivityTurn(tuple(turn)) for turn in turns]


def read_filter(query: Mapping[str, str]) -> LogFilter:
    """The filter that the fields of an address describe."""
    where = LogFilter(
        session=query.get("session", "").strip(),
        principal=query.get("principal", "").strip(),
        tool=query.get("tool", "").strip(),
        server=query.get("server", "").strip(),
        outcome=query.get("outcome", "").strip(),
        kind=query.get("kind", "").strip(),
    )
    if where.outcome == RUNNING:
        where = replace(where, outcome="", is_open=True)
    before = query.get("before", "")
    return replace(where, before=int(before)) if before.isdigit() else where


def read_rows(log: LogStore, where: LogFilter, *, limit: int = PAGE_ROWS) -> tuple[LogRow, ...]:
    """The newest rows that match, the newest first."""
    rows = log.read(where, limit=limit)
    if where.is_open:
        now = time.time()
        return tuple(row for row in rows if current_outcome(row, now=now) == RUNNING)
    return rows


def find_sequence(log: LogStore, moment: float) -> int:
    """The sequence of the first row from this time on; that after the last one if there is none."""
    # Rows are appended in the order of time, give or take. Halving the range takes twenty reads
    # of one row in a journal of a million, where a search by time alone would sort all of them.
    first, last = _end(log, is_newest_first=False), _end(log, is_newest_first=True) + 1
    while first < last:
        middle = (first + last) // 2
        found = log.read(LogFilter(after=middle - 1), limit=1, is_newest_first=False)
        if not found or found[0].time >= moment:
            last = middle
        else:
            first = found[0].sequence + 1
    return last


def _end(log: LogStore, *, is_newest_first: bool) -> int:
    rows = log.read(EVERY_ROW, limit=1, is_newest_first=is_newest_first)
    return rows[0].sequence if rows else 0


def parse_moment(text: str) -> float:
    """A date and time as a form field sends it, in UTC unless it names a zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise QueryError(
            f"{text!r} is not a time.", hint="Write a date and a time: 2026-01-31T12:00."
        ) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def visible_data(row: LogRow, *, shows_texts: bool) -> dict[str, Any]:
    """The data of a row; without its texts unless they are to be shown."""
    data = row_data(row)
    if shows_texts:
        return data
    hidden = _TEXT_KEYS | ({"reason"} if row.outcome in _HIDDEN_REASONS else frozenset[str]())
    if row.kind == "refusal":
        hidden |= {"why"} if "status" not in data else frozenset[str]()
    return {key: value for key, value in data.items() if key not in hidden}


def fingerprint(rows: Iterable[LogRow]) -> str:
    """A text that changes whenever a page with these rows looks different."""
    now = time.time()
    return json.dumps([(row.sequence, current_outcome(row, now=now)) for row in rows])
