"""Metrics kept in memory: how well discovery works, and how long each ranker takes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter
from typing import Any, cast

from ..events import Event, Sink
from ..search.ranking import Ranker, Ranking, RankingRequest


class TimedRanker:
    """An arm that ranks as before and tells how long it took, as `search_arm` events."""

    def __init__(
        self, ranker: Ranker, sink: Sink, *, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._ranker = ranker
        self._sink = sink
        self._clock = clock
        self._name = type(ranker).__name__.lower()

    def rank(self, request: RankingRequest) -> Ranking | None:
        """The arm's own ranking."""
        started = self._clock()
        try:
            return self._ranker.rank(request)
        finally:
            took = round((self._clock() - started) * 1000, 3)
            self._sink(Event("search_arm", facts={"arm": self._name, "took_ms": took}))


def time_rankers(rankers: Iterable[Ranker], sink: Sink) -> tuple[TimedRanker, ...]:
    """The same arms, timed: `Engine(rankers=time_rankers([Exact(), BM25F(), Dense(e)], sink))`."""
    return tuple(TimedRanker(ranker, sink) for ranker in rankers)


_MAX_SESSIONS = 4096
_MAX_PENDING_SEARCHES = 100


@dataclass(frozen=True, slots=True)
class Distribution:
    """How some measurements lie: how many, their sum, the least and the greatest."""

    count: int = 0
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0

    @property
    def mean(self) -> float:
        """Their average; 0 when there are none."""
        return self.total / self.count if self.count else 0.0

    def with_value(self, value: float) -> Distribution:
        """One more measurement."""
        least = min(self.least, value) if self.count else value
        most = max(self.most, value) if self.count else value
        return Distribution(self.count + 1, self.total + value, least, most)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """A snapshot of the figures.

    `latency_ms` is by arm of the search, where arms are timed, and `all`. `tokens` of a run is by
    its kind: A needed no search, B one, C several. `hit_rate` is the share of searches of which a
    found tool was used.
    """

    searches: int = 0
    misses: int = 0
    hits: int = 0
    calls: int = 0
    failures: int = 0
    latency_ms: Mapping[str, Distribution] = field(default_factory=dict[str, Distribution])
    tokens: Mapping[str, Distribution] = field(default_factory=dict[str, Distribution])

    @property
    def hit_rate(self) -> float:
        """Of all searches, how many found a tool that was used afterwards."""
        return self.hits / self.searches if self.searches else 0.0


def run_kind(searches: int) -> str:
    """The kind of a run: answered at once, after one search, after several."""
    return "ABC"[min(searches, 2)]


class DiscoveryMetrics:
    """A sink that counts; safe from many threads, and it forgets the oldest sessions."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = {"searches": 0, "misses": 0, "hits": 0, "calls": 0, "failures": 0}
        self._latency: dict[str, Distribution] = {}
        self._tokens: dict[str, Distribution] = {}
        self._found: OrderedDict[str, list[frozenset[str]]] = OrderedDict()

    def __call__(self, event: Event) -> None:
        """Count one event; kinds that say nothing about figures are passed over."""
        with self._lock:
            match event.kind:
                case "tool_discovery_result":
                    self._record_search(event)
                case "search_arm":
                    self._record_latency(str(event.facts["arm"]), float(event.facts["took_ms"]))
                case "tool_call":
                    self._record_call(event)
                case "run_end":
                    self._record_run(event.facts)
                case _:
                    pass

    def snapshot(self) -> MetricsSnapshot:
        """The figures as they are now."""
        with self._lock:
            return MetricsSnapshot(
                **self._counts, latency_ms=dict(self._latency), tokens=dict(self._tokens)
            )

    def take_hits(self, session: str, tool: str) -> int:
        """How many searches of a session a call of this tool now turns into hits."""
        waiting = self._found.get(session, [])
        served = [names for names in waiting if tool in names]
        if served:
            self._found[session] = [names for names in waiting if tool not in names]
        return len(served)

    def _record_search(self, event: Event) -> None:
        self._counts["searches"] += 1
        names = frozenset(cast("tuple[str, ...]", event.facts.get("names") or ()))
        if not names:
            self._counts["misses"] += 1
        self._record_latency("all", float(event.facts.get("took_ms", 0.0)))
        if names:
            waiting = [*self._found.get(event.session, ()), names]
            self._found[event.session] = waiting[-_MAX_PENDING_SEARCHES:]
            self._found.move_to_end(event.session)
        while len(self._found) > _MAX_SESSIONS:
            self._found.popitem(last=False)

    def _record_latency(self, arm: str, milliseconds: float) -> None:
        self._latency[arm] = self._latency.get(arm, Distribution()).with_value(milliseconds)

    def _record_call(self, event: Event) -> None:
        self._counts["calls"] += 1
        self._counts["failures"] += bool(event.facts.get("is_error"))
        self._counts["hits"] += self.take_hits(event.session, str(event.facts.get("tool", "")))

    def _record_run(self, facts: Mapping[str, Any]) -> None:
        kind = run_kind(int(facts.get("searches", 0)))
        spent = float(facts.get("input_tokens", 0)) + float(facts.get("output_tokens", 0))
        self._tokens[kind] = self._tokens.get(kind, Distribution()).with_value(spent)
