"""A regular expression first; where it finds nothing, a fuzzy look at the same words."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from rapidfuzz import fuzz

from ...catalog.names import normalised
from ...catalog.tool import Tool
from ...errors import QueryError
from ...search.pattern import Haystack, Pattern
from .matcher import Domain, Matches, ranked

INVALID = "invalid regex pattern"
_WORD = re.compile(r"\w+")
_SIMILAR = 75.0
"""The least likeness, of 100, at which a word passes for a misspelling of another."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """Searches names and descriptions for a pattern anywhere, whatever the case.

    Hits keep the catalog's order and are not cut. With no hit, at most `fuzzy_limit` tools come
    by likeness: the query as a literal, then word by word, then by similar spelling.
    """

    fuzzy_limit: int = 5
    on_invalid: Literal["error", "literal"] = "error"

    def match(self, query: str, domain: Domain, *, limit: int | None) -> Matches:
        """Everything the pattern hits, else what is most like it."""
        try:
            found = _regex(query, domain.tools)[:limit]
        except QueryError:
            if self.on_invalid == "error":
                raise
            found = ()
        if found:
            return Matches(tools=found, scores=(1.0,) * len(found))
        scored = [(s, t) for t in domain.tools if (s := likeness(query, t))]
        loose = ranked(scored, limit=self.fuzzy_limit)
        return replace(loose, is_fuzzy=bool(loose.tools))


def _regex(query: str, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    haystack = Haystack.of((t.name, t.description) for t in tools)
    return tuple(tools[i] for i in haystack.matching(_pattern(query)))


def _pattern(query: str) -> Pattern:
    try:
        return Pattern.of(query)
    except QueryError as error:
        cause = error.message.removeprefix("Invalid regex pattern: ")
        said = f"{INVALID}: {cause}"
        raise QueryError(said, position=error.position, hint=error.hint) from error


def likeness(query: str, tool: Tool) -> float:
    """How alike query and tool are: 3 for a literal part, up to 2 by words, 1 by letters."""
    text = query.strip().lower()
    if not text:
        return 0.0
    if text in tool.name.lower() or text in tool.description.lower():
        return 3.0 if text in tool.name.lower() else 2.5
    wanted = _words(text)
    names, others = _words(tool.name), _words(tool.description)
    if not wanted:
        return 0.0
    by_words = [max(_kinship(w, names), 0.6 * _kinship(w, others)) for w in wanted]
    if any(score >= 0.6 for score in by_words):
        return 1.0 + sum(by_words) / len(wanted)
    by_letters = [max(_similarity(w, names), 0.9 * _similarity(w, others)) for w in wanted]
    mean = sum(by_letters) / len(wanted)
    return mean / 100 if mean >= _SIMILAR else 0.0


def _words(text: str) -> list[str]:
    return [w for part in _WORD.findall(text) for w in normalised(part).split("_") if w]


def _kinship(word: str, others: list[str]) -> float:
    return max((_kin(word, other) for other in others), default=0.0)


def _kin(word: str, other: str) -> float:
    """The same word, one the beginning of the other, or an abbreviation of it."""
    if word == other:
        return 1.0
    short, long = sorted((word, other), key=len)
    if len(short) < 3 or short[0] != long[0]:
        return 0.0
    if long.startswith(short):
        return 0.8
    letters = iter(long)
    return 0.5 if short == word and all(letter in letters for letter in short) else 0.0


def _similarity(word: str, others: list[str]) -> float:
    return max((fuzz.ratio(word, other) for other in others), default=0.0)
