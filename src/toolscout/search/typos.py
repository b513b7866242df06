"""Typo repair against the vocabulary: a word no tool has is read as the one it nearly is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain

from rapidfuzz.distance import OSA

from .index import Index
from .postings import Vocabulary
from .ranking import Ints, Mask

_SHORTEST = 4
_LONG = 8
_ENOUGH = 3
_FEW = 64


@dataclass(slots=True)
class Spellings:
    """A vocabulary by first letter and length, grown as it grows."""

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    seen: int = 0
    buckets: dict[tuple[str, int], list[str]] = field(
        default_factory=dict[tuple[str, int], list[str]]
    )

    def near(self, index: Index, word: str) -> list[str]:
        """Terms one slip away, two for a long word, nearest first; the first letter is trusted."""
        self._follow(index.shared.vocabulary)
        slips = 2 if len(word) >= _LONG else 1
        found: list[tuple[int, str]] = []
        for length in range(len(word) - slips, len(word) + slips + 1):
            for term in self.buckets.get((word[0], length), ()):
                distance = OSA.distance(word, term, score_cutoff=slips)
                if distance <= slips:
                    found.append((distance, term))
        return [term for _, term in sorted(found)]

    def _follow(self, vocabulary: Vocabulary) -> None:
        """Take in the terms that came since last time, or start anew with another vocabulary."""
        if vocabulary is not self.vocabulary:
            self.vocabulary, self.seen, self.buckets = vocabulary, 0, {}
        end = len(vocabulary)
        for term in vocabulary.terms[self.seen : end]:
            if len(term) >= _SHORTEST - 1 and term.isalpha():
                self.buckets.setdefault((term[0], len(term)), []).append(term)
        self.seen = end


def repair(
    index: Index, spellings: Spellings, needs: Sequence[list[str]], allowed: Mask
) -> tuple[Sequence[list[str]], dict[str, str]]:
    """The terms of a query's clauses with slips mended, and what was read as what.

    Only words that a tool in the caller's sight has are offered, so a repair tells nothing of the
    others. A request that has enough words the catalog knows needs no repair: what is unknown in it
    is a name or a value more often than a slip.
    """
    different = dict.fromkeys(chain.from_iterable(needs))
    unknown = unseen(index, different, allowed)
    if not unknown or len(different) - len(unknown) >= _ENOUGH:
        return needs, {}
    mended: dict[str, str] = {}
    for term in unknown:
        near = spellings.near(index, term) if _is_word(term) else []
        hidden = set(unseen(index, near, allowed))
        if visible := next((n for n in near if n not in hidden), None):
            mended[term] = visible
    return [[mended.get(t, t) for t in terms] for terms in needs], mended


def _is_word(term: str) -> bool:
    return len(term) >= _SHORTEST and term.isalpha() and term[0] < "\u2e7f"


def unseen(index: Index, texts: Collection[str], allowed: Mask) -> list[str]:
    """The terms that no tool in a caller's sight has."""
    known = index.lexicon.terms(texts)
    if allowed is not index.alive:
        known = [term for term in known if _is_seen(term.slots, allowed)]
    if len(known) == len(texts):
        return []
    names = {term.text for term in known}
    return [text for text in texts if text not in names]


def _is_seen(slots: Ints, allowed: Mask) -> bool:
    """Whether one of some slots is allowed; of a common word the first few nearly always tell."""
    return bool(allowed.take(slots[:_FEW]).any() or allowed.take(slots).any())
