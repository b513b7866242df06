"""Typo repair against the vocabulary: a word no tool has is read as the one it nearly is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from rapidfuzz.distance import OSA

from .index import Index
from .ranking import Mask
from .text import is_value, terms

_SHORTEST = 4
_LONG = 8
_MOST = 4


@dataclass(slots=True)
class Spellings:
    """The vocabulary by first letter and length, grown as the vocabulary grows."""

    seen: int = 0
    buckets: dict[tuple[str, int], list[str]] = field(
        default_factory=dict[tuple[str, int], list[str]]
    )

    def grow(self, index: Index) -> None:
        """Take in the terms that came since last time."""
        vocabulary = index.shared.vocabulary.terms
        end = len(vocabulary)
        for term in vocabulary[self.seen : end]:
            if len(term) >= _SHORTEST - 1 and term.isalpha():
                self.buckets.setdefault((term[0], len(term)), []).append(term)
        self.seen = end

    def near(self, word: str) -> list[str]:
        """Terms one slip away, two for a long word, nearest first; the first letter is trusted."""
        slips = 2 if len(word) >= _LONG else 1
        found: list[tuple[int, str]] = []
        for length in range(len(word) - slips, len(word) + slips + 1):
            for term in self.buckets.get((word[0], length), ()):
                distance = OSA.distance(word, term, score_cutoff=slips)
                if distance <= slips:
                    found.append((distance, term))
        return [term for _, term in sorted(found)]


def repair(
    index: Index, spellings: Spellings, text: str, allowed: Mask
) -> tuple[list[str], dict[str, str]]:
    """The terms of a query with slips mended, and what was read as what.

    Only words that a tool in the caller's sight has are offered, so a repair tells nothing of
    the others. Names of people and places look like slips: a capital inside a sentence is left be.
    """
    found = terms(text)
    unknown = [t for t in dict.fromkeys(found) if _is_strange(index, t, allowed)]
    if not unknown or len(unknown) > _MOST:
        return found, {}
    suspects = {t for t in unknown if t not in _proper(text)}
    mended: dict[str, str] = {}
    if suspects:
        spellings.grow(index)
    for term in suspects:
        candidates = spellings.near(term)
        if visible := next((c for c in candidates if _is_seen(index, c, allowed)), None):
            mended[term] = visible
    return [mended.get(t, t) for t in found], mended


def _is_strange(index: Index, term: str, allowed: Mask) -> bool:
    if len(term) < _SHORTEST or is_value(term) or not term.isalpha() or term[0] > "\u2e7f":
        return False
    return not _is_seen(index, term, allowed)


def _is_seen(index: Index, term: str, allowed: Mask) -> bool:
    """Whether a tool that the caller may see has a term."""
    number = index.shared.vocabulary.get(term)
    if number is None or allowed is index.alive:
        return number is not None
    wanted = np.array([number], np.int32)
    for segment in index.segments:
        (posting,) = segment.find(wanted)
        if posting is not None and bool(allowed[posting.slots].any()):
            return True
    return False


def _proper(text: str) -> set[str]:
    """The terms of words with a capital that does not begin the text."""
    words: Sequence[str] = text.split()
    if len(words) <= 3:
        return set()
    return {t for w in words[1:] if w[:1].isupper() for t in terms(w)}
