"""What the words of queries are to one snapshot: which tools have them, and how much that says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .kernel import Word
from .postings import Floats, Ints, Posting, Segment, Vocabulary

_SIGHTS = 64
_FEW = 64

Mask = npt.NDArray[np.bool_]

Lost = Mapping[int, tuple[int, float, float]]
"""What dead slots had of each term: how many had it, the sum of its weights, and of the squares."""


class Term(NamedTuple):
    """A word as one snapshot knows it; words sort by how rare they are.

    So many living `tools` have it; `postings` tell in which fields.
    """

    tools: int
    text: str
    word: Word
    postings: tuple[Posting, ...]

    def within(self, sight: Sight) -> Term | None:
        """The same word to a caller, if a tool in sight has it.

        How rare it is stays; who sees little need not read of the many tools out of sight.
        """
        slots, weights, worth, idf, mean, variance, _ = self.word
        is_seen = sight.mask.take(slots)
        if len(slots) <= _FEW or not sight.is_narrow:
            return self if 1 in is_seen.tobytes() else None
        few = slots.compress(is_seen)
        if not len(few):
            return None
        word = Word.of(few, weights.compress(is_seen), worth, idf, mean, variance)
        return Term(self.tools, self.text, word, self.postings)

    def quieter(self, share: float) -> Term:
        """The same word where it counts only for a share."""
        if share == 1:
            return self
        slots, weights, worth, idf, mean, variance, _ = self.word
        told = share * worth, idf, share * mean, share * share * variance
        return self._replace(word=Word.of(slots, weights, *told))


@dataclass(frozen=True, slots=True)
class Sight:
    """What a caller sees of one snapshot: the `words` of the catalog, if a tool in sight has them.

    `slips` are words with the term and the word that each is read as. All are worked out once. It
    `is_narrow` if most tools are out of sight.
    """

    mask: Mask
    is_narrow: bool
    words: dict[str, Term | None] = field(default_factory=dict[str, Term | None])
    slips: dict[str, tuple[str, str] | None] = field(
        default_factory=dict[str, "tuple[str, str] | None"]
    )


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The words of one snapshot, looked up once each; the dead count as if they had never been.

    `size` counts slots and `count` the living; `lost` corrects the postings' statistics.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    segments: tuple[Segment, ...] = ()
    lost: Lost = field(default_factory=dict[int, tuple[int, float, float]])
    size: int = 0
    count: int = 0
    _seen: dict[str, Term | None] = field(default_factory=dict[str, Term | None])
    _sights: dict[int, Sight] = field(default_factory=dict[int, "Sight"])

    def terms(self, texts: Iterable[str]) -> list[Term | None]:
        """What each of some words is, if living tools have it."""
        seen, numbers = self._seen, self.vocabulary.numbers
        return [seen[t] if t in seen else self.get(t) if t in numbers else None for t in texts]

    def seen(self, texts: Iterable[str], allowed: Mask) -> list[Term | None]:
        """What each of some words is, if an allowed tool has it; asked for once for a mask."""
        sight = self.sight(allowed)
        known, numbers = sight.words, self.vocabulary.numbers
        return [
            known[t] if t in known else self._see(t, sight) if t in numbers else None for t in texts
        ]

    def sight(self, allowed: Mask) -> Sight:
        """What is remembered of a caller's view."""
        sight = self._sights.get(id(allowed))
        if sight is None:  # the mask is kept with its answers, so that its id stays its own
            if len(self._sights) >= _SIGHTS:
                self._sights.clear()
            is_narrow = 2 * np.count_nonzero(allowed) < len(allowed)
            sight = self._sights[id(allowed)] = Sight(allowed, bool(is_narrow))
        return sight

    def get(self, text: str) -> Term | None:
        """A word, if a living tool has it."""
        if text in self._seen:
            return self._seen[text]
        number = self.vocabulary.numbers.get(text)
        if number is None or not self.count:  # words of strangers are not kept
            return None
        term = self._seen[text] = self._look_up(text, number)
        return term

    def _see(self, text: str, sight: Sight) -> Term | None:
        term = self.get(text)
        if term is not None:
            term = sight.words[text] = term.within(sight)
        return term

    def _look_up(self, text: str, number: int) -> Term | None:
        found = [segment.find(number) for segment in self.segments]
        postings = tuple([posting for posting in found if posting is not None])
        if not postings:
            return None
        count, total, squares = _summed(postings)
        if number in self.lost:
            gone, less, fewer = self.lost[number]
            count, total, squares = count - gone, total - less, squares - fewer
        if count <= 0:
            return None
        idf = log(1 + (self.count - count + 0.5) / (count + 0.5))
        mean = total / self.count
        variance = idf * idf * max(0.0, squares / self.count - mean * mean)
        slots, weights = _joined(postings)
        word = Word.of(slots, weights, idf, idf, idf * mean, variance)
        return Term(count, text, word, postings)


def _summed(postings: Sequence[Posting]) -> tuple[int, float, float]:
    """How many tools have a term, the sum of its weights there, and of their squares."""
    if len(postings) == 1:
        _, start, end, total, squares = postings[0]
        return end - start, total, squares
    count = sum([p.end - p.start for p in postings])
    return count, sum([p.total for p in postings]), sum([p.squares for p in postings])


def _joined(postings: Sequence[Posting]) -> tuple[Ints, Floats]:
    """The slots of all segments that have a term, and its weights."""
    if len(postings) == 1:
        return postings[0].slots, postings[0].weights
    slots = np.concatenate([p.slots for p in postings])
    return slots, np.concatenate([p.weights for p in postings])
