"""A phrase, found literally: no words, no ranking, the catalog's own order."""

from __future__ import annotations

from dataclasses import dataclass

from ...catalog.tool import Tool
from .matcher import Domain, Matches


@dataclass(frozen=True, slots=True)
class Substring:
    """Keeps a tool whose name, category or description contains the query, whatever its case."""

    def match(self, query: str, domain: Domain, *, limit: int | None) -> Matches:
        """All that contain the query as it is, spaces included; an empty one is in every text."""
        wanted = query.lower()
        found = tuple(t for t in domain.tools if _contains(t, wanted))[:limit]
        return Matches(tools=found, scores=(1.0,) * len(found))


def _contains(tool: Tool, wanted: str) -> bool:
    return any(wanted in text.lower() for text in (tool.name, tool.category, tool.description))
