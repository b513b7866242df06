"""What the words of queries are to one snapshot: which tools have them, and how much that says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .kernel import PostingList
from .postings import Floats, Ints, Segment, SegmentPostings, Vocabulary

_MAX_VISIBLE_TERMS = 64
_MIN_POSTINGS_TO_NARROW = 64

Mask = npt.NDArray[np.bool_]

RemovedTermStats = Mapping[int, tuple[int, float, float]]
"""What dead slots had of each term: how many had it, the sum of its weights, and of the squares."""


class Term(NamedTuple):
    """A word as one snapshot knows it; words sort by how rare they are.

    So many living `tools` have it; `postings` tell in which fields.
    """

    document_frequency: int
    text: str
    posting_list: PostingList
    segment_postings: tuple[SegmentPostings, ...]

    def restrict_to(self, sight: VisibleTerms) -> Term | None:
        """The same word to a caller, if a tool in sight has it.

        How rare it is stays; who sees little need not read of the many tools out of sight.
        """
        slots, weights, worth, idf, mean, variance, _ = self.posting_list
        is_seen = sight.mask.take(slots)
        if len(slots) <= _MIN_POSTINGS_TO_NARROW or not sight.is_narrow:
            return self if 1 in is_seen.tobytes() else None
        few = slots.compress(is_seen)
        if not len(few):
            return None
        word = PostingList.of(few, weights.compress(is_seen), worth, idf, mean, variance)
        return Term(self.document_frequency, self.text, word, self.segment_postings)

    def scale(self, share: float) -> Term:
        """The same word where it counts only for a share."""
        if share == 1:
            return self
        slots, weights, worth, idf, mean, variance, _ = self.posting_list
        told = share * worth, idf, share * mean, share * share * variance
        return self._replace(posting_list=PostingList.of(slots, weights, *told))


@dataclass(frozen=True, slots=True)
class VisibleTerms:
    """What a caller sees of one snapshot: the `words` of the catalog, if a tool in sight has them.

    `slips` are words with the term and the word that each is read as. All are worked out once. It
    `is_narrow` if most tools are out of sight.
    """

    mask: Mask
    is_narrow: bool
    terms: dict[str, Term | None] = field(default_factory=dict[str, Term | None])
    corrections: dict[str, tuple[str, str] | None] = field(
        default_factory=dict[str, "tuple[str, str] | None"]
    )


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The words of one snapshot, looked up once each; the dead count as if they had never been.

    `size` counts slots and `count` the living; `lost` corrects the postings' statistics.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    segments: tuple[Segment, ...] = ()
    removed: RemovedTermStats = field(default_factory=dict[int, tuple[int, float, float]])
    size: int = 0
    count: int = 0
    _cache: dict[str, Term | None] = field(default_factory=dict[str, Term | None])
    _visible_by_mask: dict[int, VisibleTerms] = field(default_factory=dict[int, "VisibleTerms"])

    def look_up(self, texts: Iterable[str]) -> list[Term | None]:
        """What each of some words is, if living tools have it."""
        seen, numbers = self._cache, self.vocabulary.numbers
        return [seen[t] if t in seen else self.get(t) if t in numbers else None for t in texts]

    def look_up_visible(self, texts: Iterable[str], allowed: Mask) -> list[Term | None]:
        """What each of some words is, if an allowed tool has it; asked for once for a mask."""
        sight = self.visible_terms(allowed)
        known, numbers = sight.terms, self.vocabulary.numbers
        return [
            known[t] if t in known else self._get_visible(t, sight) if t in numbers else None
            for t in texts
        ]

    def visible_terms(self, allowed: Mask) -> VisibleTerms:
        """What is remembered of a caller's view."""
        sight = self._visible_by_mask.get(id(allowed))
        if sight is None:  # the mask is kept with its answers, so that its id stays its own
            if len(self._visible_by_mask) >= _MAX_VISIBLE_TERMS:
                self._visible_by_mask.clear()
            is_narrow = 2 * np.count_nonzero(allowed) < len(allowed)
            sight = self._visible_by_mask[id(allowed)] = VisibleTerms(allowed, bool(is_narrow))
        return sight

    def get(self, text: str) -> Term | None:
        """A word, if a living tool has it."""
        if text in self._cache:
            return self._cache[text]
        number = self.vocabulary.numbers.get(text)
        if number is None or not self.count:  # words of strangers are not kept
            return None
        term = self._cache[text] = self._build_term(text, number)
        return term

    def _get_visible(self, text: str, sight: VisibleTerms) -> Term | None:
        term = self.get(text)
        if term is not None:
            term = sight.terms[text] = term.restrict_to(sight)
        return term

    def _build_term(self, text: str, number: int) -> Term | None:
        found = [segment.find(number) for segment in self.segments]
        postings = tuple([posting for posting in found if posting is not None])
        if not postings:
            return None
        count, total, squares = _sum_statistics(postings)
        if number in self.removed:
            gone, less, fewer = self.removed[number]
            count, total, squares = count - gone, total - less, squares - fewer
        if count <= 0:
            return None
        idf = log(1 + (self.count - count + 0.5) / (count + 0.5))
        mean = total / self.count
        variance = idf * idf * max(0.0, squares / self.count - mean * mean)
        slots, weights = _join_postings(postings)
        word = PostingList.of(slots, weights, idf, idf, idf * mean, variance)
        return Term(count, text, word, postings)


def _sum_statistics(postings: Sequence[SegmentPostings]) -> tuple[int, float, float]:
    """How many tools have a term, the sum of its weights there, and of their squares."""
    if len(postings) == 1:
        _, start, end, total, squares = postings[0]
        return end - start, total, squares
    count = sum([p.end - p.start for p in postings])
    return count, sum([p.total for p in postings]), sum([p.squares for p in postings])


def _join_postings(postings: Sequence[SegmentPostings]) -> tuple[Ints, Floats]:
    """The slots of all segments that have a term, and its weights."""
    if len(postings) == 1:
        return postings[0].slots, postings[0].weights
    slots = np.concatenate([p.slots for p in postings])
    return slots, np.concatenate([p.weights for p in postings])
