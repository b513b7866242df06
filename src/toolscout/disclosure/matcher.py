"""Matchers, which find the tools that fit a query, and rules for which matches to load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import ClassVar, Protocol

from ..catalog.tool import Tool, normalise_name
from ..search.engine import Allow, Engine
from ..search.hit import QueryVector, Results
from ..search.query import parse
from .doubt import MIN_LIKELY, judge_results, set_verdict
from .noise import is_noise
from .scope import Scope


@dataclass(frozen=True, slots=True)
class SearchDomain:
    """The tools a search may find (all allowed ones, or only deferred ones), and the engine.

    `shown` are the names of tools that are in view and in no catalog: discovery tools, and those
    that features add.
    """

    scope: Scope
    engine: Engine
    only_deferred: bool = False
    shown: frozenset[str] = frozenset()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools in catalog order."""
        return self.scope.deferrable_tools if self.only_deferred else self.scope.tools

    @property
    def allow(self) -> Allow | None:
        """The allow rule to pass to the engine."""
        return frozenset(t.name for t in self.tools) if self.only_deferred else self.scope.allow


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMatches:
    """The tools that fit one query, best first.

    `scores` belong to `tools` and are comparable only within one answer; `missing` are requested
    names that do not exist; `is_fuzzy` says that a looser match had to be used, `is_named` that
    all tools were requested by name. The `confidence` says whether they are likely wrong.
    """

    tools: tuple[Tool, ...] = ()
    scores: tuple[float, ...] = ()
    missing: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    confidence: float = 1.0
    is_fuzzy: bool = False
    is_named: bool = False
    vectors: tuple[QueryVector, ...] = field(default=(), compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools, best first."""
        return tuple(t.name for t in self.tools)

    @property
    def scores_by_name(self) -> Mapping[str, float]:
        """The score of each tool, best first."""
        return dict(zip(self.names, self.scores, strict=True))

    def cut(self, limit: int) -> ToolMatches:
        """The first of the tools."""
        return replace(self, tools=self.tools[:limit], scores=self.scores[:limit])

    @property
    def is_unsure(self) -> bool:
        """Whether the tools are likely wrong."""
        return self.confidence < MIN_LIKELY


class Matcher(Protocol):
    """Finds the tools that fit a query."""

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        """The best tools for the query, at most `limit`; raises QueryError for a bad pattern."""
        ...


def rank_by_score(scored: list[tuple[float, Tool]], *, limit: int | None) -> ToolMatches:
    """Sort by descending score, ties in the given order, and cut at the limit."""
    best = sorted(scored, key=lambda pair: -pair[0])[:limit]
    return ToolMatches(tools=tuple(t for _, t in best), scores=tuple(s for s, _ in best))


_MAX_SUGGESTIONS = 5


@dataclass(frozen=True, slots=True)
class HybridMatcher:
    """Ranks the tools of a domain with the search engine."""

    fuses_queries: ClassVar[bool] = True
    """Whether scores of several queries are on one scale, so that they can be added."""

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        """The engine's hits with its confidence, near names and notes."""
        max_hits = len(domain.tools) if limit is None else limit
        if max_hits <= 0:
            return ToolMatches(confidence=0.0)
        results = self.search(query, domain, limit=max_hits)
        selected = parse(query).select
        return ToolMatches(
            tools=tuple(h.tool for h in results.hits),
            scores=tuple(h.score for h in results.hits),
            near=results.near if not selected else _suggest_names(selected, results, domain),
            notes=results.notes,
            confidence=results.confidence,
            is_named=bool(selected),
            vectors=results.vectors,
        )

    def search(self, query: str, domain: SearchDomain, *, limit: int) -> Results:
        """The engine's results, from keywords and vectors together; none where nothing fits."""
        allow = domain.allow
        results = domain.engine.search(query, limit=limit, allow=allow)
        return judge_results(results, domain.engine, allow=allow)


# Below this joint confidence, keywords alone do not count.
_CHANCE = 0.01


@dataclass(frozen=True, slots=True)
class BandedMatcher(HybridMatcher):
    """Runs a keyword search first, and uses vectors as far as that leaves doubt.

    Above the confidence `words_only` keyword hits count alone, and vectors are not computed; above
    `vectors_only` keywords and vectors count together; otherwise vectors count alone. Below
    `min_confidence` a search finds nothing, and so does a query that shares no word with the
    catalog and is as far from every tool as random letters are. Where vectors are missing, keywords
    decide, and their hits are not withheld.
    """

    # Of 340 real requests two fall below 0.15, and neither finds its tool; below 0.2 it is eight,
    # of which five do.

    # A query that keywords answer alone has scores of another scale.
    fuses_queries: ClassVar[bool] = False

    words_only: float = 0.8
    vectors_only: float = 0.3
    min_confidence: float = 0.15

    def search(self, query: str, domain: SearchDomain, *, limit: int) -> Results:
        """The results of the band that the confidence of the keyword search falls into."""
        results = self._search_band(query, domain, limit)
        # While vectors are still being computed, confidence says little about found words.
        if results.confidence < self.min_confidence and domain.engine.status.is_complete:
            results = replace(results, hits=(), near=(*results.names, *results.near))
        return set_verdict(results, domain.engine)

    def _search_band(self, query: str, domain: SearchDomain, limit: int) -> Results:
        search = partial(domain.engine.search, query, limit=limit, allow=domain.allow)
        words = search(arms="words")
        if words.confidence > self.words_only or words.is_selection:
            return words
        both = search()
        # The words are part of both estimates, which are made by different regressions. A single
        # word that fits by chance can look good alone, but not beside vectors.
        is_chance = both.confidence < _CHANCE
        confidence = both.confidence if is_chance else max(words.confidence, both.confidence)
        if words.confidence > self.vectors_only or not domain.engine.status.is_complete:
            return replace(both, confidence=confidence)
        vectors = search(arms="vectors")
        if not words.hits and is_noise(query, vectors, domain.engine):
            confidence = 0.0
        # An embedder that is down has no hits.
        return replace(vectors if vectors.hits else both, confidence=confidence)


def _suggest_names(
    selected: tuple[str, ...], results: Results, domain: SearchDomain
) -> tuple[str, ...]:
    """Names to try where some selected names do not exist."""
    if len(results.hits) >= len(selected):
        return ()
    # A wrong name is usually close in words to the right one, so its words are a good query.
    words = " ".join(normalise_name(name).replace("_", " ") for name in selected)
    return domain.engine.search(words, limit=_MAX_SUGGESTIONS, allow=domain.allow).names


LoadRule = Callable[[ToolMatches], tuple[Tool, ...]]
"""Selects the tools to load from the matches of one query."""

# A second schema costs tokens, a second lookup costs more. At 0.92 a lookup succeeds at once in
# 83 % of cases instead of 74 %, for 9 % more tokens (docs/decisions/replies.md).
CLOSE_SCORE_RATIO = 0.92
"""A second hit with at least this share of the first score is loaded together with it."""


def load_nothing(_: ToolMatches) -> tuple[Tool, ...]:
    """Load nothing: the model loads with another call."""
    return ()


def load_all(matches: ToolMatches) -> tuple[Tool, ...]:
    """Load every match."""
    return matches.tools


def load_strong(matches: ToolMatches) -> tuple[Tool, ...]:
    """Load the matches that score at least half as well as the best."""
    # Loading lasts for the conversation, so weak hits must not be loaded.
    floor = ceil(max(matches.scores, default=0) / 2)
    pairs = zip(matches.scores, matches.tools, strict=True)
    return tuple(t for score, t in pairs if score and score >= floor)


def load_best(matches: ToolMatches) -> tuple[Tool, ...]:
    """Load tools requested by name; else the first hit, and a second that is as good."""
    if matches.is_named:
        return matches.tools
    if matches.is_unsure:
        return ()
    floor = CLOSE_SCORE_RATIO * max(matches.scores, default=0)
    pairs = zip(matches.scores[:2], matches.tools[:2], strict=True)
    # Scores may be zero or negative; then no second hit counts as close.
    return tuple(t for i, (score, t) in enumerate(pairs) if not i or score >= floor > 0)
