"""Words that occur: a tool's score is how many of the query's words stand in its text."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ...catalog.tool import Tool
from .matcher import Domain, Matches, ranked


@dataclass(frozen=True, slots=True)
class Overlap:
    """Counts the words of the query that a name or description contains.

    `is_weighted` counts a word in the name three times, puts a tool whose name is the whole
    query far in front, and drops what scores less than half of the best: for profiles where a
    hit stays loaded, so that weak ones must not.
    """

    is_weighted: bool = False

    def match(self, query: str, domain: Domain, *, limit: int | None) -> Matches:
        """Tools by the number of words they contain; with no words at all, the first ones."""
        terms = [t for word in query.split() if (t := _trim(word))]
        if not terms:
            first = domain.tools[:limit]
            return Matches(tools=first, scores=(0.0,) * len(first))
        scored = [(s, t) for t in domain.tools if (s := self._score(t, terms, query))]
        if self.is_weighted and scored:
            floor = ceil(max(s for s, _ in scored) / 2)
            scored = [(s, t) for s, t in scored if s >= floor]
        return ranked(scored, limit=limit)

    def _score(self, tool: Tool, terms: list[str], query: str) -> float:
        name, text = tool.name.lower(), tool.description.lower()
        if not self.is_weighted:
            whole = f"{name} {text}"
            return float(sum(t in whole for t in terms))
        score = sum(3 if t in name else 1 if t in text else 0 for t in terms)
        return float(score + (100 if _trim(query) == name else 0))


def _trim(word: str) -> str:
    """Without what is neither letter nor digit at both ends, in lower case."""
    start, end = 0, len(word)
    while start < end and not word[start].isalnum():
        start += 1
    while end > start and not word[end - 1].isalnum():
        end -= 1
    return word[start:end].lower()
