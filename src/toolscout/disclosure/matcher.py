"""How a query is matched with tools, and which of the matches are loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from ..catalog.names import normalise_name
from ..catalog.tool import Tool
from ..search.engine import Allow, Engine
from ..search.hit import Results
from ..search.query import parse
from .scope import Scope


@dataclass(frozen=True, slots=True)
class SearchDomain:
    """What a search may find: the allowed tools, or only those that wait; and the engine."""

    scope: Scope
    engine: Engine
    only_waiting: bool = False

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools in catalog order."""
        return self.scope.deferrable_tools if self.only_waiting else self.scope.tools

    @property
    def allow(self) -> Allow | None:
        """The rule that the engine must keep."""
        return frozenset(t.name for t in self.tools) if self.only_waiting else self.scope.allow

    @property
    def loaded(self) -> frozenset[str]:
        """What this conversation has loaded."""
        return self.scope.loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMatches:
    """The tools that fit one query, best first.

    `scores` go with `tools` and mean something only within one answer; `missing` are names that
    were asked for and do not exist; `is_fuzzy` says that a looser way had to be taken, `is_named`
    that all of them were asked for by their names.
    """

    tools: tuple[Tool, ...] = ()
    scores: tuple[float, ...] = ()
    missing: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    confidence: float = 1.0
    is_fuzzy: bool = False
    is_named: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools, best first."""
        return tuple(t.name for t in self.tools)


class Matcher(Protocol):
    """Finds the tools that a query means."""

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        """The best tools for the query, at most `limit`; raises QueryError for a bad pattern."""
        ...


def rank_by_score(scored: list[tuple[float, Tool]], *, limit: int | None) -> ToolMatches:
    """Order by score, ties as they came, and cut."""
    best = sorted(scored, key=lambda pair: -pair[0])[:limit]
    return ToolMatches(tools=tuple(t for _, t in best), scores=tuple(s for s, _ in best))


_MAX_SUGGESTIONS = 5


@dataclass(frozen=True, slots=True)
class HybridMatcher:
    """Ranks with the search engine, over what the caller may see."""

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        """The engine's hits with its confidence, the near names and what it has to say."""
        most = len(domain.tools) if limit is None else limit
        if most <= 0:
            return ToolMatches(confidence=0.0)
        results = domain.engine.search(query, limit=most, allow=domain.allow)
        asked = parse(query).select
        return ToolMatches(
            tools=tuple(h.tool for h in results.hits),
            scores=tuple(h.score for h in results.hits),
            near=results.near if not asked else _suggest_names(asked, results, domain),
            notes=results.notes,
            confidence=results.confidence,
            is_named=bool(asked),
        )


def _suggest_names(
    asked: tuple[str, ...], results: Results, domain: SearchDomain
) -> tuple[str, ...]:
    """Names to try where some that were asked for do not exist."""
    if len(results.hits) >= len(asked):
        return ()
    words = " ".join(normalise_name(name).replace("_", " ") for name in asked)
    return domain.engine.search(words, limit=_MAX_SUGGESTIONS, allow=domain.allow).names


LoadRule = Callable[[ToolMatches], tuple[Tool, ...]]
"""Picks from the answer to one query what is to come into view."""

MIN_CONFIDENCE = 0.25
"""The confidence from which the best hit is loaded without being asked for by name."""

CLOSE_SCORE_RATIO = 0.92
"""A second hit that scores this part of the first is loaded with it: one lookup more is dearer."""


def load_nothing(_: ToolMatches) -> tuple[Tool, ...]:
    """A search only tells; loading is another call."""
    return ()


def load_all(matches: ToolMatches) -> tuple[Tool, ...]:
    """What is found is loaded."""
    return matches.tools


def load_strong(matches: ToolMatches) -> tuple[Tool, ...]:
    """What scores at least half as well as the best: loading lasts, so weak hits must not."""
    floor = ceil(max(matches.scores, default=0) / 2)
    pairs = zip(matches.scores, matches.tools, strict=True)
    return tuple(t for score, t in pairs if score and score >= floor)


def load_best(matches: ToolMatches) -> tuple[Tool, ...]:
    """What was asked for by name; else the first hit and a second as good, if not likely wrong."""
    if matches.is_named:
        return matches.tools
    if matches.confidence < MIN_CONFIDENCE:
        return ()
    floor = CLOSE_SCORE_RATIO * max(matches.scores, default=0)
    pairs = zip(matches.scores[:2], matches.tools[:2], strict=True)
    return tuple(t for i, (score, t) in enumerate(pairs) if not i or score >= floor > 0)
