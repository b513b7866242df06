"""Inverted lists in flat arrays: who has a term, how much it weighs there, and in which fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .analyzer import terms_of_words

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Segment:
    """The postings of one run of slots, sorted by term and then by slot; never changed."""

    start: int
    end: int
    terms: Ints
    offsets: Ints
    slots: Ints
    weights: Floats
    fields: Bytes
    sums: npt.NDArray[np.float64]
    squares: npt.NDArray[np.float64]

    def find(self, term: int) -> SegmentPostings | None:
        """A term's postings here, if it has any."""
        terms, offsets = self.terms, self.offsets
        place = term  # where it stands if the segment has every term up to it
        if place >= len(terms) or terms.item(place) != term:
            place = int(terms.searchsorted(np.int32(term)))
            if place == len(terms) or terms.item(place) != term:
                return None
        start, end = offsets.item(place), offsets.item(place + 1)
        return SegmentPostings(self, start, end, self.sums.item(place), self.squares.item(place))


class SegmentPostings(NamedTuple):
    """A term's postings in one segment: where they stand, and the sums of what they weigh."""

    segment: Segment
    start: int
    end: int
    total: float
    squares: float

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def slots(self) -> Ints:
        """The slots that have the term, in order."""
        return self.segment.slots[self.start : self.end]

    @property
    def weights(self) -> Floats:
        """What it weighs in each of them."""
        return self.segment.weights[self.start : self.end]

    def position(self, slot: int) -> int | None:
        """Where a slot stands in the segment, if it has the term."""
        if not self.segment.start <= slot < self.segment.end:
            return None
        place = self.start + int(self.slots.searchsorted(np.int32(slot)))
        return place if place < self.end and self.segment.slots[place] == slot else None


class DocumentTerms(NamedTuple):
    """The terms of some documents, a row each: whose, which, what it weighs, in which fields."""

    documents: Ints
    terms: Ints
    weights: Floats
    fields: Bytes


def build_segment(start: int, count: int, entries: DocumentTerms) -> Segment:
    """A segment for so many documents, which take the slots from `start` on."""
    slots = (entries.documents + start).astype(np.int32)
    return _make_segment(
        start, start + count, entries.terms, slots, entries.weights, entries.fields
    )


def merge_segments(segments: Sequence[Segment]) -> Segment:
    """One segment out of neighbouring ones."""
    if len(segments) == 1:
        return segments[0]
    terms = np.concatenate([np.repeat(s.terms, np.diff(s.offsets)) for s in segments])
    return _make_segment(
        segments[0].start,
        segments[-1].end,
        terms,
        np.concatenate([s.slots for s in segments]),
        np.concatenate([s.weights for s in segments]),
        np.concatenate([s.fields for s in segments]),
    )


def compact_segments(segments: Sequence[Segment], alive: npt.NDArray[np.bool_]) -> Segment:
    """One segment of the living alone, their slots closed up."""
    whole = merge_segments(segments)
    living = alive[whole.slots]
    places = np.cumsum(alive, dtype=np.int32) - 1
    terms = np.repeat(whole.terms, np.diff(whole.offsets))[living]
    slots = places[whole.slots[living]].astype(np.int32)
    weights, fields = whole.weights[living], whole.fields[living]
    return _make_segment(0, int(alive.sum()), terms, slots, weights, fields)


def merge_small_segments(segments: Sequence[Segment], *, ratio: int = 6) -> tuple[Segment, ...]:
    """Merge small neighbours at the end, so that sizes fall geometrically and lookups stay few."""
    kept = list(segments)
    while len(kept) > 1:
        last, before = kept[-1], kept[-2]
        if before.end - before.start > ratio * (last.end - last.start):
            break
        kept[-2:] = [merge_segments((before, last))]
    return tuple(kept)


def _make_segment(
    start: int, end: int, terms: Ints, slots: Ints, weights: Floats, fields: Bytes
) -> Segment:
    if not len(terms):  # a term that no word has keeps the arrays from being empty
        terms, slots = np.array([-1], np.int32), np.array([start], np.int32)
        weights, fields = np.zeros(1, np.float32), np.zeros(1, np.uint8)
    order = np.argsort(terms, kind="stable")
    terms, weights = terms[order], weights[order]
    firsts = np.flatnonzero(np.concatenate([[True], terms[1:] != terms[:-1]]))
    offsets = np.append(firsts, len(terms)).astype(np.int32)
    wide = weights.astype(np.float64)  # so that what leaves can be taken off without a trace
    return Segment(
        start=start,
        end=end,
        terms=terms[firsts],
        offsets=offsets,
        slots=slots[order],
        weights=weights,
        fields=fields[order],
        sums=np.add.reduceat(wide, firsts),
        squares=np.add.reduceat(wide * wide, firsts),
    )


class Vocabulary:
    """Terms and their numbers, and the words they come from, as they are written.

    It only grows, so every snapshot can share it; it `has_lost` once a tool has left, since then
    there may be words in it that no tool has.
    """

    __slots__ = ("_met", "has_lost", "numbers", "terms", "words")

    def __init__(self) -> None:
        self.terms: list[str] = []
        self.words: list[str] = []
        self.has_lost = False
        numbers = _TermNumbers(self.terms)
        self.numbers: Mapping[str, int] = numbers
        """By term; to be asked with `in` or `get`, since whatever else is asked for gets one."""
        self._met = _WordTermNumbers(self.words, numbers)

    def __len__(self) -> int:
        return len(self.terms)

    def add_words(self, words: Iterable[str]) -> list[int]:
        """Take in words as they are written, new or not; the numbers of their terms."""
        return list(chain.from_iterable(map(self._met.__getitem__, words)))


class _TermNumbers(dict[str, int]):
    """Numbers a term when it is first asked for."""

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
    """The numbers of a word's terms, worked out when it is first met."""

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
