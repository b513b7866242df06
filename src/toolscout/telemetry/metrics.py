"""Metrics in memory: hit rate of searches, latency by ranker, tokens per run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter

from ..events import (
    DiscoveryResultEvent,
    Event,
    RankerTimeEvent,
    RunSummaryEvent,
    Sink,
    ToolCallEvent,
    stamp_sink,
)
from ..search.ranking import Ranker, Ranking, RankingRequest


class TimedRanker:
    """Wraps a ranker and emits its duration as `search_arm` events."""

    def __init__(
        self, ranker: Ranker, sink: Sink, *, clock: Callable[[], float] = perf_counter
    ) -> None:
        self.wrapped = ranker
        self._sink = stamp_sink(sink)
        self._clock = clock
        # A user's own ranker needs no name: its class has one.
        self._name = str(getattr(ranker, "event_name", type(ranker).__name__.lower()))

    def rank(self, request: RankingRequest) -> Ranking | None:
        """The ranking of the wrapped ranker."""
        started = self._clock()
        try:
            return self.wrapped.rank(request)
        finally:
            took = round((self._clock() - started) * 1000, 3)
            self._sink(RankerTimeEvent(arm=self._name, took_ms=took))


def time_rankers(rankers: Iterable[Ranker], sink: Sink) -> tuple[TimedRanker, ...]:
    """Time rankers: `Engine(rankers=time_rankers([Exact(), BM25F(), Dense(e)], sink))`."""
    return tuple(TimedRanker(ranker, sink) for ranker in rankers)


# Bounds on memory: nothing says that a session is over, or that no call will follow a search.
_MAX_SESSIONS = 4096
_MAX_PENDING_SEARCHES = 100


@dataclass(frozen=True, slots=True)
class Distribution:
    """Count, sum, minimum and maximum of some measurements."""

    count: int = 0
    total: float = 0.0
    minimum: float = 0.0
    maximum: float = 0.0

    @property
    def mean(self) -> float:
        """The average; 0 without measurements."""
        return self.total / self.count if self.count else 0.0

    def with_value(self, value: float) -> Distribution:
        """The distribution with one more measurement."""
        minimum = min(self.minimum, value) if self.count else value
        maximum = max(self.maximum, value) if self.count else value
        return Distribution(self.count + 1, self.total + value, minimum, maximum)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """All metrics at one moment.

    `latency_ms` is by ranker, if rankers are timed, and `all` for whole searches. `tokens` per run
    is by kind of run: A without a search, B with one, C with several.
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
        """The share of searches that found a tool that was called afterwards."""
        return self.hits / self.searches if self.searches else 0.0


def run_kind(searches: int) -> str:
    """The kind of a run: A without a search, B with one, C with several."""
    return "ABC"[min(searches, 2)]


class SearchHits:
    """Which searches found a tool that was called afterwards; the oldest sessions are dropped."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pending: OrderedDict[str, list[frozenset[str]]] = OrderedDict()

    def add_search(self, event: DiscoveryResultEvent) -> None:
        """Remember what a search found, until one of the tools is called."""
        names = frozenset(event.names)
        if not names:
            return
        with self._lock:
            pending = [*self._pending.get(event.session, ()), names]
            self._pending[event.session] = pending[-_MAX_PENDING_SEARCHES:]
            self._pending.move_to_end(event.session)
            while len(self._pending) > _MAX_SESSIONS:
                self._pending.popitem(last=False)

    def take(self, event: ToolCallEvent) -> int:
        """How many searches of the session become hits by this call."""
        # A call is credited to every earlier search that found the tool, and each search at most
        # once: calling a tool three times makes one hit.
        with self._lock:
            pending = self._pending.get(event.session, [])
            others = [names for names in pending if event.tool not in names]
            if len(others) < len(pending):
                self._pending[event.session] = others
            return len(pending) - len(others)


class DiscoveryMetrics:
    """A thread-safe sink that counts events."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._hits = SearchHits()
        self._counts = {"searches": 0, "misses": 0, "hits": 0, "calls": 0, "failures": 0}
        self._latency: dict[str, Distribution] = {}
        self._tokens: dict[str, Distribution] = {}

    def __call__(self, event: Event) -> None:
        """Count one event; kinds without metrics are ignored."""
        with self._lock:
            match event:
                case DiscoveryResultEvent():
                    self._record_search(event)
                case RankerTimeEvent():
                    self._record_latency(event.arm, event.took_ms)
                case ToolCallEvent():
                    self._record_call(event)
                case RunSummaryEvent():
                    self._record_run(event)
                case _:
                    pass

    def snapshot(self) -> MetricsSnapshot:
        """The metrics at this moment."""
        with self._lock:
            return MetricsSnapshot(
                **self._counts, latency_ms=dict(self._latency), tokens=dict(self._tokens)
            )

    def _record_search(self, event: DiscoveryResultEvent) -> None:
        self._counts["searches"] += 1
        self._counts["misses"] += not event.names
        self._record_latency("all", event.took_ms)
        self._hits.add_search(event)

    def _record_latency(self, arm: str, milliseconds: float) -> None:
        self._latency[arm] = self._latency.get(arm, Distribution()).with_value(milliseconds)

    def _record_call(self, event: ToolCallEvent) -> None:
        self._counts["calls"] += 1
        self._counts["failures"] += event.is_error
        self._counts["hits"] += self._hits.take(event)

    def _record_run(self, event: RunSummaryEvent) -> None:
        kind = run_kind(event.searches)
        tokens = float(event.input_tokens + event.output_tokens)
        self._tokens[kind] = self._tokens.get(kind, Distribution()).with_value(tokens)
