"""The engine itself, as a matcher: words, meaning, names and typos in one ranking."""

from __future__ import annotations

from dataclasses import dataclass

from ...catalog.names import normalised
from ...search.hit import Results
from ...search.query import parse
from .matcher import Domain, Matches

_INSTEAD = 5


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Ranks with the search engine, over what the caller may see."""

    def match(self, query: str, domain: Domain, *, limit: int | None) -> Matches:
        """The engine's hits with its confidence, the near names and what it has to say."""
        most = len(domain.tools) if limit is None else limit
        if most <= 0:
            return Matches(confidence=0.0)
        results = domain.engine.search(query, limit=most, allow=domain.allow)
        asked = parse(query).select
        return Matches(
            tools=tuple(h.tool for h in results.hits),
            scores=tuple(h.score for h in results.hits),
            near=results.near if not asked else _instead(asked, results, domain),
            notes=results.notes,
            confidence=results.confidence,
            is_named=bool(asked),
        )


def _instead(asked: tuple[str, ...], results: Results, domain: Domain) -> tuple[str, ...]:
    """Names to try where some that were asked for do not exist."""
    if len(results.hits) >= len(asked):
        return ()
    words = " ".join(normalised(name).replace("_", " ") for name in asked)
    return domain.engine.search(words, limit=_INSTEAD, allow=domain.allow).names
