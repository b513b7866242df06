"""The vocabulary, and term lookup in one snapshot: postings, idf and score statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from ..embedders.arrays import Floats, Ints, Mask
from .analyzer import terms_of_words
from .postings import Segment, SegmentPostings

# Against division by zero: a term that all tools have equally.
_MIN_VARIANCE = 1e-6

RemovedTermStats = Mapping[int, tuple[int, float, float]]
"""By term, what removed tools contributed: document count, sum of weights, sum of squares."""


class Vocabulary:
    """Terms and their numbers, and the words (as written) that they come from.

    It only grows, so all snapshots share it. `has_removals` is set once a tool has been removed:
    from then on it may contain words that no tool has.
    """

    __slots__ = ("_word_numbers", "has_removals", "numbers", "terms", "words")

    def __init__(self) -> None:
        self.terms: list[str] = []
        self.words: list[str] = []
        self.has_removals = False
        numbers = _TermNumbers(self.terms)
        self.numbers: Mapping[str, int] = numbers
        """Numbers by term. Use `in` or `get`: subscripting adds an unknown term."""
        self._word_numbers = _WordTermNumbers(self.words, numbers)

    def __len__(self) -> int:
        return len(self.terms)

    def add_words(self, words: Iterable[str]) -> list[int]:
        """Add words as written, known or not, and return the numbers of their terms."""
        return list(chain.from_iterable(map(self._word_numbers.__getitem__, words)))


# `__missing__` runs only for new entries; for the others a lookup is a plain dictionary access
# without any Python code. Indexing does millions of them.
class _TermNumbers(dict[str, int]):
    """Gives a term the next number when it is first looked up."""

    __slots__ = ("_terms",)

    def __init__(self, terms: list[str]) -> None:
        super().__init__()
        self._terms = terms

    def __missing__(self, term: str) -> int:
        number = len(self._terms)
        self._terms.append(term)
        self[term] = number
        return number


class _WordTermNumbers(dict[str, tuple[int, ...]]):
    """The term numbers of a word, computed when it is first looked up."""

    __slots__ = ("_numbers", "_words")

    def __init__(self, words: list[str], numbers: _TermNumbers) -> None:
        super().__init__()
        self._words = words
        self._numbers = numbers

    def __missing__(self, word: str) -> tuple[int, ...]:
        found = tuple(map(self._numbers.__getitem__, terms_of_words((word,))))
        self._words.append(word)
        self[word] = found
        return found


class Term(NamedTuple):
    """A term of one snapshot: the slots that have it, ascending, and what it adds to each.

    `mean` and `variance` describe what it adds over the whole catalog, where it is mostly nothing.
    """

    text: str
    slots: Ints
    gains: Floats
    idf: float
    mean: float
    variance: float
    segment_postings: tuple[SegmentPostings, ...]

    def scale(self, share: float) -> Term:
        """The same term with only a share of its score."""
        return self._replace(
            gains=self.gains * np.float32(share),
            mean=share * self.mean,
            variance=share * share * self.variance,
        )

    def occurs_in(self, slot: int) -> bool:
        """Whether a slot has the term."""
        place = int(self.slots.searchsorted(np.int32(slot)))
        return place < len(self.slots) and self.slots.item(place) == slot

    def gains_at(self, slots: Ints) -> Floats:
        """What the term adds to some slots."""
        places = np.minimum(self.slots.searchsorted(slots), len(self.slots) - 1)
        return self.gains[places] * (self.slots[places] == slots)


def score_statistics(terms: Iterable[Term]) -> tuple[float, float]:
    """Mean and standard deviation, over the catalog, of the summed score of some terms."""
    # Both follow from those of each term, so no pass over all scores is needed. Adding variances
    # assumes that terms occur independently; that is not quite true, but z-scores only need a
    # stable scale. The scale is also the same for every caller, however few tools are visible.
    known = list(terms)
    variance = sum([term.variance for term in known])
    return sum([term.mean for term in known]), sqrt(max(_MIN_VARIANCE, variance))


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The terms of one snapshot, each looked up once; removed tools leave no trace in them.

    `size` is the number of slots, `count` the number of live ones. `removed` is subtracted from the
    statistics of the segments, which still contain removed tools.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    segments: tuple[Segment, ...] = ()
    removed: RemovedTermStats = field(default_factory=dict[int, tuple[int, float, float]])
    size: int = 0
    count: int = 0
    _cache: dict[str, Term | None] = field(default_factory=dict[str, Term | None])

    def look_up(self, texts: Iterable[str], allowed: Mask | None = None) -> list[Term | None]:
        """Look up terms; None for each that no live tool has, or none that is allowed."""
        found = [self.get(text) for text in texts]
        if allowed is None:
            return found
        return [t if t is not None and allowed.take(t.slots).any() else None for t in found]

    def get(self, text: str) -> Term | None:
        """Look up a term; None if no live tool has it."""
        if text in self._cache:
            return self._cache[text]
        number = self.vocabulary.numbers.get(text)
        # Unknown words are not cached: queries bring ever new ones, and the cache would never stop
        # growing.
        if number is None or not self.count:
            return None
        term = self._cache[text] = self._build_term(text, number)
        return term

    def _build_term(self, text: str, number: int) -> Term | None:
        found = [segment.find(number) for segment in self.segments]
        postings = tuple([posting for posting in found if posting is not None])
        gone, gone_total, gone_squares = self.removed.get(number, (0, 0.0, 0.0))
        count = sum(map(len, postings)) - gone
        if count <= 0:
            return None
        # The idf of BM25 in Lucene's form, which the 1 keeps positive even for a term that every
        # tool has: log(1 + (N - n + 0.5) / (n + 0.5)).
        idf = log(1 + (self.count - count + 0.5) / (count + 0.5))
        # Mean and variance of the term's score over all N tools, those without it counting as 0.
        mean = (sum(p.total for p in postings) - gone_total) / self.count
        square = (sum(p.squares for p in postings) - gone_squares) / self.count
        return Term(
            text,
            slots=np.concatenate([p.slots for p in postings]),
            gains=np.concatenate([p.weights for p in postings]) * np.float32(idf),
            idf=idf,
            mean=idf * mean,
            variance=idf * idf * max(0.0, square - mean * mean),
            segment_postings=postings,
        )
