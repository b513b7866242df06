"""The vocabulary, and term lookup in one snapshot: postings, idf and score statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import log
from typing import NamedTuple

import numpy as np

from .analyzer import terms_of_words
from .arrays import Floats, Ints, Mask
from .postings import PostingList, Segment, SegmentPostings

# Caches for this many allow masks; beyond it all are dropped, so memory stays bounded.
_MAX_VISIBLE_TERMS = 64
# A shorter posting list is scored faster than it is copied.
_MIN_POSTINGS_TO_NARROW = 64

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
    """A term of one snapshot with its postings; terms sort by document frequency, rarest first."""

    # The order of the fields matters: the kernel needs the rarest terms first, and ties are broken
    # by text. Texts are unique, so the posting lists are never compared.
    document_frequency: int
    text: str
    posting_list: PostingList
    segment_postings: tuple[SegmentPostings, ...]

    def restrict_to(self, visible: VisibleTerms) -> Term | None:
        """The term for one caller; None if no visible tool has it."""
        # idf, mean and variance stay those of the whole catalog: every caller is scored on the same
        # scale, however few tools are visible.
        slots, weights, worth, idf, mean, variance, _ = self.posting_list
        is_visible = visible.mask.take(slots)
        if len(slots) <= _MIN_POSTINGS_TO_NARROW or not visible.is_narrow:
            return self if 1 in is_visible.tobytes() else None  # faster than is_visible.any()
        few = slots.compress(is_visible)
        if not len(few):
            return None
        narrowed = PostingList.of(few, weights.compress(is_visible), worth, idf, mean, variance)
        return Term(self.document_frequency, self.text, narrowed, self.segment_postings)

    def scale(self, share: float) -> Term:
        """The same term with only a share of its score."""
        if share == 1:
            return self
        slots, weights, worth, idf, mean, variance, _ = self.posting_list
        numbers = share * worth, idf, share * mean, share * share * variance
        return self._replace(posting_list=PostingList.of(slots, weights, *numbers))


@dataclass(frozen=True, slots=True)
class VisibleTerms:
    """The caches for one allow mask over one snapshot.

    `terms` are the looked-up terms, None where no visible tool has them. `corrections` are the
    looked-up typos, each with the term and the word that it stands for. `is_narrow` says that most
    tools are hidden.
    """

    mask: Mask
    is_narrow: bool
    terms: dict[str, Term | None] = field(default_factory=dict[str, Term | None])
    corrections: dict[str, tuple[str, str] | None] = field(
        default_factory=dict[str, "tuple[str, str] | None"]
    )


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
    _visible_by_mask: dict[int, VisibleTerms] = field(default_factory=dict[int, "VisibleTerms"])

    def look_up(self, texts: Iterable[str]) -> list[Term | None]:
        """Look up terms; None for each that no live tool has."""
        # Inlined `get`: most terms of a query are cached or unknown, and need no call each.
        cache, numbers = self._cache, self.vocabulary.numbers
        return [cache[t] if t in cache else self.get(t) if t in numbers else None for t in texts]

    def look_up_visible(self, texts: Iterable[str], allowed: Mask) -> list[Term | None]:
        """Look up terms; None for each that no allowed tool has."""
        visible = self.visible_terms(allowed)
        cache, numbers = visible.terms, self.vocabulary.numbers
        return [
            cache[t] if t in cache else self._get_visible(t, visible) if t in numbers else None
            for t in texts
        ]

    def visible_terms(self, allowed: Mask) -> VisibleTerms:
        """The caches for an allow mask."""
        # Keyed by identity, because hashing or comparing a mask takes as long as a lookup. The
        # value holds the mask: while it is alive, no other mask can get its id.
        visible = self._visible_by_mask.get(id(allowed))
        if visible is None:
            if len(self._visible_by_mask) >= _MAX_VISIBLE_TERMS:
                self._visible_by_mask.clear()
            is_narrow = 2 * np.count_nonzero(allowed) < len(allowed)
            visible = self._visible_by_mask[id(allowed)] = VisibleTerms(allowed, bool(is_narrow))
        return visible

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

    def _get_visible(self, text: str, visible: VisibleTerms) -> Term | None:
        term = self.get(text)
        if term is not None:
            term = visible.terms[text] = term.restrict_to(visible)
        return term

    def _build_term(self, text: str, number: int) -> Term | None:
        found = [segment.find(number) for segment in self.segments]
        postings = tuple([posting for posting in found if posting is not None])
        if not postings:
            return None
        count, total, squares = _sum_statistics(postings)
        if number in self.removed:
            gone, gone_total, gone_squares = self.removed[number]
            count, total, squares = count - gone, total - gone_total, squares - gone_squares
        if count <= 0:
            return None
        # The idf of BM25 in Lucene's form, which the 1 keeps positive even for a term that every
        # tool has: log(1 + (N - n + 0.5) / (n + 0.5)).
        idf = log(1 + (self.count - count + 0.5) / (count + 0.5))
        # Mean and variance of the term's score over all N tools, those without it counting as 0.
        mean = total / self.count
        variance = idf * idf * max(0.0, squares / self.count - mean * mean)
        slots, weights = _join_postings(postings)
        posting_list = PostingList.of(slots, weights, idf, idf, idf * mean, variance)
        return Term(count, text, posting_list, postings)


def _sum_statistics(postings: Sequence[SegmentPostings]) -> tuple[int, float, float]:
    """The document frequency of a term, the sum of its weights, and the sum of their squares."""
    if len(postings) == 1:
        _, start, end, total, squares = postings[0]
        return end - start, total, squares
    count = sum([p.end - p.start for p in postings])
    return count, sum([p.total for p in postings]), sum([p.squares for p in postings])


def _join_postings(postings: Sequence[SegmentPostings]) -> tuple[Ints, Floats]:
    """The slots and weights of a term over all segments."""
    if len(postings) == 1:
        return postings[0].slots, postings[0].weights
    slots = np.concatenate([p.slots for p in postings])
    return slots, np.concatenate([p.weights for p in postings])
