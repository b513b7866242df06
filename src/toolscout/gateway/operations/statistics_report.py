"""Calls, errors, latency and saved tokens over a day, a week or a month."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import numpy as np

from .latency import percentiles
from .statistics_record import WIDTH, Counts, StatisticsRecord, ToolName
from .statistics_store import DAYS, HOURS, Period, StatisticsStore

Name = TypeVar("Name", str, ToolName)
TimeRange = Literal["day", "week", "month"]
TIME_RANGES: Final[Mapping[TimeRange, tuple[Period, int]]] = {
    "day": (HOURS, 24),
    "week": (HOURS, 7 * 24),
    "month": (DAYS, 30),
}
"""The length of the periods of each range, and their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFigures:
    """How many calls there were, how many failed, and percentiles of their duration."""

    calls: int
    errors: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None

    @classmethod
    def of(cls, row: Counts) -> CallFigures:
        """The figures of one row of counts."""
        return cls.of_rows(row[None])[0]

    @classmethod
    def of_rows(cls, rows: Counts) -> list[CallFigures]:
        """The figures of each row; thousands of them take milliseconds."""
        counts = rows[:, 1:]
        calls: list[int] = counts.sum(axis=1).tolist()
        errors: list[int] = rows[:, 0].tolist()
        by_share = (percentiles(counts, share) for share in (0.5, 0.95, 0.99))
        return [
            cls(calls=n, errors=failed, p50_ms=p50, p95_ms=p95, p99_ms=p99)
            for n, failed, p50, p95, p99 in zip(calls, errors, *by_share, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsReport:
    """Figures in total, by tool, by server and by time.

    `searches` and `tokens_saved` are those of the whole gateway, and None if only a server or a
    tool was asked for. `tools` and `servers` are in the order of their calls, `times` are the
    starts of the periods.
    """

    total: CallFigures
    searches: CallFigures | None
    tokens_saved: int | None
    tools: Mapping[ToolName, CallFigures]
    servers: Mapping[str, CallFigures]
    times: tuple[int, ...]
    calls_by_time: tuple[CallFigures, ...]
    searches_by_time: tuple[CallFigures, ...]
    tokens_by_time: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        whole: dict[str, Any] = {}
        if self.searches is not None:
            whole = {"tokens_saved": self.tokens_saved, "searches": _plain(self.searches)}
        return {
            "total": _plain(self.total),
            **whole,
            "servers": [{"server": n, **_plain(row)} for n, row in self.servers.items()],
            "tools": [
                {"server": server, "tool": tool, **_plain(row)}
                for (server, tool), row in self.tools.items()
            ],
            "times": [self._plain_period(number) for number in range(len(self.times))],
        }

    def _plain_period(self, number: int) -> dict[str, Any]:
        found = {"start": self.times[number], **_plain(self.calls_by_time[number])}
        if self.searches is not None:
            found["searches"] = self.searches_by_time[number].calls
            found["tokens_saved"] = self.tokens_by_time[number]
        return found


def _plain(row: CallFigures) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("calls", "errors", "p50_ms", "p95_ms", "p99_ms")}


def period_starts(time_range: TimeRange, now: float) -> range:
    """The starts of the periods of a range; the last one is not over yet."""
    period, count = TIME_RANGES[time_range]
    last = period.start_of(now)
    return range(last - (count - 1) * period.seconds, last + 1, period.seconds)


def read_report(
    store: StatisticsStore | None,
    time_range: TimeRange,
    *,
    now: float | None = None,
    server: str = "",
    tool: str = "",
) -> StatisticsReport:
    """The figures in a store until now, of one server or one tool if they are given."""
    period, _ = TIME_RANGES[time_range]
    starts = period_starts(time_range, time.time() if now is None else now)
    if store is None:
        return build_report({}, starts, server=server, tool=tool)
    records = store.read(period, since=starts[0])
    return build_report(records, starts, server=server, tool=tool)


def build_report(
    records: Mapping[int, StatisticsRecord], starts: range, *, server: str = "", tool: str = ""
) -> StatisticsReport:
    """The figures of these periods, of one server or one tool if they are given."""
    names: dict[ToolName, int] = {}
    by_time, places, counts = _zeros(len(starts)), list[int](), [_zeros(0)]
    searches, tokens = _zeros(len(starts)), [0] * len(starts)
    for number, start in enumerate(starts):
        record = records.get(start)
        if record is None:
            continue
        rows, tools = record.calls, record.tools
        if server or tool:
            chosen = [n for n, name in enumerate(tools) if _matches(name, server, tool)]
            rows, tools = rows[chosen], tuple(tools[n] for n in chosen)
        places += [names.setdefault(name, len(names)) for name in tools]
        counts.append(rows)
        by_time[number] = rows.sum(axis=0)
        searches[number] = record.searches
        tokens[number] = record.tokens_saved
    by_tool = _zeros(len(names))
    np.add.at(by_tool, places, np.concatenate(counts))
    is_whole = not (server or tool)
    return StatisticsReport(
        total=CallFigures.of(by_time.sum(axis=0)),
        searches=CallFigures.of(searches.sum(axis=0)) if is_whole else None,
        tokens_saved=sum(tokens) if is_whole else None,
        tools=_by_calls([*names], by_tool),
        servers=_by_server(names, by_tool),
        times=tuple(starts),
        calls_by_time=tuple(CallFigures.of_rows(by_time)),
        searches_by_time=tuple(CallFigures.of_rows(searches)) if is_whole else (),
        tokens_by_time=tuple(tokens) if is_whole else (),
    )


def _matches(name: ToolName, server: str, tool: str) -> bool:
    return (not server or name[0] == server) and (not tool or name[1] == tool)


def _zeros(count: int) -> Counts:
    return np.zeros((count, WIDTH), np.int64)


def _by_server(names: Iterable[ToolName], by_tool: Counts) -> Mapping[str, CallFigures]:
    servers: dict[str, int] = {}
    places = [servers.setdefault(server, len(servers)) for server, _ in names]
    rows = _zeros(len(servers))
    np.add.at(rows, places, by_tool)
    return _by_calls([*servers], rows)


def _by_calls(names: Iterable[Name], rows: Counts) -> Mapping[Name, CallFigures]:
    pairs = zip(names, CallFigures.of_rows(rows), strict=True)
    return dict(sorted(pairs, key=lambda pair: (-pair[1].calls, pair[0])))
