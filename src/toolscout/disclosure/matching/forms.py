"""Query forms: `select:` lists, an exact name, a prefix, words with `+required` ones."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...catalog.tool import Tool
from .matcher import Domain, Matches, ranked

_PARTS = re.compile(r"__|_")
_SELECT = "select:"


@dataclass(frozen=True, slots=True)
class Forms:
    """Reads a query as the first form that fits; names and prefixes keep their case."""

    def match(self, query: str, domain: Domain, *, limit: int | None) -> Matches:
        """`select:` takes every name it lists; the other forms are cut at the limit."""
        text = query.strip()
        if not text:
            return Matches()
        if text.startswith(_SELECT):
            return _select(text.removeprefix(_SELECT), domain)
        if len(text.split()) == 1:
            found = _named(text, domain, limit=limit)
            if found:
                return Matches(tools=found, scores=(1.0,) * len(found))
        return _words(text, domain, limit=limit)


def _select(text: str, domain: Domain) -> Matches:
    asked = dict.fromkeys(name for part in text.split(",") if (name := part.strip()))
    known = {t.name: t for t in domain.tools}
    found = tuple(known[n] for n in asked if n in known)
    missing = tuple(n for n in asked if n not in known)
    return Matches(tools=found, scores=(1.0,) * len(found), missing=missing)


def _named(text: str, domain: Domain, *, limit: int | None) -> tuple[Tool, ...]:
    """The tool of that name, else those whose names begin so; loaded ones take nobody's place."""
    exact = tuple(t for t in domain.tools if t.name == text)
    if exact:
        return exact
    begun = sorted((t for t in domain.tools if t.name.startswith(text)), key=lambda t: t.name)
    fresh = [t.name for t in begun if t.name not in domain.loaded][:limit]
    return tuple(t for t in begun if t.name in domain.loaded or t.name in fresh)


def _words(text: str, domain: Domain, *, limit: int | None) -> Matches:
    terms: list[str] = []
    required: set[str] = set()
    for token in text.lower().split():
        if token.startswith("+") and len(token) > 1:
            required.add(token[1:])
            terms.append(token[1:])
        else:
            terms.append(token)
    scored: list[tuple[float, Tool]] = []
    for tool in domain.tools:
        name, description = tool.name.lower(), tool.description.lower()
        if all(r in name or r in description for r in required):
            parts = _PARTS.split(name)
            score = sum(
                _score(t, parts, name, description, served=bool(tool.server)) for t in terms
            )
            scored.append((float(score), tool))
    return ranked([pair for pair in scored if pair[0] > 0], limit=limit)


def _score(term: str, parts: list[str], name: str, description: str, *, served: bool) -> int:
    """What one word is worth: a part of the name most, more for a server's tool; text least."""
    if term in parts:
        return 12 if served else 10
    if any(term in part for part in parts):
        return 6 if served else 5
    if term in name:
        return 3
    return 2 if term in description else 0
