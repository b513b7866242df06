"""The engine itself, as a matcher: words, meaning, names and typos in one ranking."""

from __future__ import annotations

from dataclasses import dataclass

from .matcher import Domain, Matches


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Ranks with the search engine, over what the caller may see."""

    def match(self, query: str, domain: Domain, *, limit: int | None) -> Matches:
        """The engine's hits with its confidence, the near names and what it has to say."""
        most = len(domain.tools) if limit is None else limit
        if most <= 0:
            return Matches(confidence=0.0)
        results = domain.engine.search(query, limit=most, allow=domain.allow)
        return Matches(
            tools=tuple(h.tool for h in results.hits),
            scores=tuple(h.score for h in results.hits),
            near=results.near,
            notes=results.notes,
            confidence=results.confidence,
        )
