"""Figures kept in memory: how well discovery works and what it costs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, cast

from ..events import Event

_SESSIONS = 4096
_WAITING = 100


@dataclass(frozen=True, slots=True)
class Spread:
    """How some measurements lie: how many, their sum, the least and the greatest."""

    count: int = 0
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0

    @property
    def mean(self) -> float:
        """Their average; 0 when there are none."""
        return self.total / self.count if self.count else 0.0

    def with_(self, value: float) -> Spread:
        """One more measurement."""
        least = min(self.least, value) if self.count else value
        most = max(self.most, value) if self.count else value
        return Spread(self.count + 1, self.total + value, least, most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
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
    latency_ms: Mapping[str, Spread] = field(default_factory=dict[str, Spread])
    tokens: Mapping[str, Spread] = field(default_factory=dict[str, Spread])

    @property
    def hit_rate(self) -> float:
        """Of all searches, how many found a tool that was used afterwards."""
        return self.hits / self.searches if self.searches else 0.0


def kind_of(searches: int) -> str:
    """The kind of a run: answered at once, after one search, after several."""
    return "ABC"[min(searches, 2)]


class Tally:
    """A sink that counts; safe from many threads, and it forgets the oldest sessions."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = {"searches": 0, "misses": 0, "hits": 0, "calls": 0, "failures": 0}
        self._latency: dict[str, Spread] = {}
        self._tokens: dict[str, Spread] = {}
        self._found: OrderedDict[str, list[frozenset[str]]] = OrderedDict()

    def __call__(self, event: Event) -> None:
        """Count one event; kinds that say nothing about figures are passed over."""
        with self._lock:
            match event.kind:
                case "tool_discovery_result":
                    self._searched(event)
                case "search_arm":
                    self._took(str(event.facts["arm"]), float(event.facts["took_ms"]))
                case "tool_call":
                    self._called(event)
                case "run_end":
                    self._ran(event.facts)
                case _:
                    pass

    def figures(self) -> Figures:
        """The figures as they are now."""
        with self._lock:
            return Figures(
                **self._counts, latency_ms=dict(self._latency), tokens=dict(self._tokens)
            )

    def hit(self, session: str, tool: str) -> int:
        """How many searches of a session a call of this tool now turns into hits."""
        waiting = self._found.get(session, [])
        served = [names for names in waiting if tool in names]
        if served:
            self._found[session] = [names for names in waiting if tool not in names]
        return len(served)

    def _searched(self, event: Event) -> None:
        self._counts["searches"] += 1
        names = frozenset(cast("tuple[str, ...]", event.facts.get("names") or ()))
        if not names:
            self._counts["misses"] += 1
        self._took("all", float(event.facts.get("took_ms", 0.0)))
        if names:
            waiting = [*self._found.get(event.session, ()), names]
            self._found[event.session] = waiting[-_WAITING:]
            self._found.move_to_end(event.session)
        while len(self._found) > _SESSIONS:
            self._found.popitem(last=False)

    def _took(self, arm: str, milliseconds: float) -> None:
        self._latency[arm] = self._latency.get(arm, Spread()).with_(milliseconds)

    def _called(self, event: Event) -> None:
        self._counts["calls"] += 1
        self._counts["failures"] += bool(event.facts.get("is_error"))
        self._counts["hits"] += self.hit(event.session, str(event.facts.get("tool", "")))

    def _ran(self, facts: Mapping[str, Any]) -> None:
        kind = kind_of(int(facts.get("searches", 0)))
        spent = float(facts.get("input_tokens", 0)) + float(facts.get("output_tokens", 0))
        self._tokens[kind] = self._tokens.get(kind, Spread()).with_(spent)
