"""Find places where one language has a word for each of several ideas close together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from .findings import Span
from .folding import fold
from .patterns import TextPattern

_COMMON = "common"
_START = re.compile(r"\\b(?=[^\x00-\x7f])")
_END = re.compile(r"(?<=[^\x00-\x7f])\\b")

Language = Mapping[str, str]
# A sentence of these takes half the characters.
_DENSE = frozenset({"zh", "ja", "ko"})


@lru_cache(maxsize=1_024)
def _pattern(source: str) -> TextPattern:
    return TextPattern(source)


def read_languages(document: Mapping[str, Any]) -> dict[str, Language]:
    """The words of each language for each idea, folded like the text."""
    return {
        language: {k: _fold_pattern(words) for k, words in ideas.items() if k != _COMMON}
        for language, ideas in document.items()
    }


def read_common_words(document: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """The words that tell each language, for those that have any."""
    rows = cast("Mapping[str, Mapping[str, str]]", document)
    return {k: frozenset(ideas[_COMMON].split()) for k, ideas in rows.items() if _COMMON in ideas}


def _fold_pattern(source: str) -> str:
    # RE2 knows word boundaries between ASCII letters only.
    source = _START.sub(r"(?:^|[^\\pL])", _END.sub(r"(?:$|[^\\pL])", source))
    # Folding would make the class `\S` an `\s`; only the letters of other scripts need it.
    return "".join(part if part.isascii() else fold(part) for part in _split_ascii(source))


def _split_ascii(text: str) -> Iterator[str]:
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or text[index].isascii() != text[start].isascii():
            yield text[start:index]
            start = index


@dataclass(frozen=True, slots=True)
class WordSearch:
    """Ideas that must all be expressed within some characters of one another."""

    ideas: tuple[str, ...]
    within: int
    languages: Mapping[str, tuple[TextPattern, ...]]

    @classmethod
    def of(cls, ideas: Sequence[str], within: int, languages: Mapping[str, Language]) -> WordSearch:
        """A search for ideas in the languages that have words for all of them."""
        patterns = {
            name: tuple(_pattern(words[idea]) for idea in ideas)
            for name, words in languages.items()
            if all(idea in words for idea in ideas)
        }
        return cls(tuple(ideas), within, patterns)

    def choose_languages(
        self, names: Sequence[str], occurring: frozenset[TextPattern]
    ) -> tuple[str, ...]:
        """Those of the languages in which a text has words for all ideas."""
        known = (name for name in names if name in self.languages)
        return tuple(name for name in known if occurring.issuperset(self.languages[name]))

    def find(self, text: str, languages: Sequence[str]) -> Iterator[Span]:
        """The first place of the ideas in each of the languages."""
        for name in languages:
            within = self.within // 2 + 4 if name in _DENSE else self.within
            span = _find_one(text, self.languages[name], within)
            if span is not None:
                yield span


def _find_one(text: str, patterns: Sequence[TextPattern], within: int) -> Span | None:
    places: list[list[Span]] = []
    for pattern in patterns:
        found = list(pattern.find(text))
        if not found:
            return None
        places.append(found)
    for first in places[0]:
        span = _close_to(first, places[1:], within)
        if span is not None:
            return span
    return None


def _close_to(first: Span, others: Sequence[Sequence[Span]], within: int) -> Span | None:
    """The place around one idea that has all the others, if they are near enough."""
    start, end = first.start, first.end
    for places in others:
        near = [p for p in places if max(end, p.end) - min(start, p.start) <= within]
        if not near:
            return None
        best = min(near, key=lambda p: (abs(p.start - first.start), p.start))
        start, end = min(start, best.start), max(end, best.end)
    return Span(start, end)
