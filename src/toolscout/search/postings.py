"""The inverted index: immutable segments of postings in flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..embedders.arrays import Bytes, Doubles, Floats, Ints, Mask


@dataclass(frozen=True, slots=True)
class Segment:
    """The postings of a range of slots, sorted by term and then by slot; never changed.

    The postings of `terms[i]` stand at `offsets[i]` to `offsets[i + 1]` of `slots`, `weights` and
    `fields`. `sums` and `squares` hold each term's summed weights and squared weights.
    """

    start: int
    end: int
    terms: Ints
    offsets: Ints
    slots: Ints
    weights: Floats
    fields: Bytes
    sums: Doubles
    squares: Doubles

    def find(self, term: int) -> SegmentPostings | None:
        """The postings of a term in this segment, if any."""
        terms, offsets = self.terms, self.offsets
        # The first segment usually has every term up to its last one, and then the term's number is
        # its place. Only otherwise a binary search is needed.
        place = term
        if place >= len(terms) or terms.item(place) != term:
            place = int(terms.searchsorted(np.int32(term)))
            if place == len(terms) or terms.item(place) != term:
                return None
        start, end = offsets.item(place), offsets.item(place + 1)
        return SegmentPostings(self, start, end, self.sums.item(place), self.squares.item(place))


class SegmentPostings(NamedTuple):
    """The postings of a term in one segment: their place, and the sums of their weights."""

    segment: Segment
    start: int
    end: int
    total: float
    squares: float

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def slots(self) -> Ints:
        """The slots that have the term, ascending."""
        return self.segment.slots[self.start : self.end]

    @property
    def weights(self) -> Floats:
        """The weight of the term in each of them."""
        return self.segment.weights[self.start : self.end]

    def position(self, slot: int) -> int | None:
        """The place of a slot in the arrays of the segment, if it has the term."""
        if not self.segment.start <= slot < self.segment.end:
            return None
        place = self.start + int(self.slots.searchsorted(np.int32(slot)))
        return place if place < self.end and self.segment.slots[place] == slot else None


class DocumentTerms(NamedTuple):
    """The terms of some documents as parallel arrays: document, term, weight, bit set of fields."""

    documents: Ints
    terms: Ints
    weights: Floats
    fields: Bytes


def build_segment(start: int, count: int, entries: DocumentTerms) -> Segment:
    """Build a segment for `count` documents, which get the slots from `start` on."""
    slots = (entries.documents + start).astype(np.int32)
    return _make_segment(
        start, start + count, entries.terms, slots, entries.weights, entries.fields
    )


def merge_segments(segments: Sequence[Segment]) -> Segment:
    """Merge neighbouring segments into one."""
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


def compact_segments(segments: Sequence[Segment], alive: Mask) -> Segment:
    """Merge all segments, leave out dead slots, and renumber the others without gaps."""
    whole = merge_segments(segments)
    living = alive[whole.slots]
    places = np.cumsum(alive, dtype=np.int32) - 1  # old slot to new slot
    terms = np.repeat(whole.terms, np.diff(whole.offsets))[living]
    slots = places[whole.slots[living]].astype(np.int32)
    weights, fields = whole.weights[living], whole.fields[living]
    return _make_segment(0, int(alive.sum()), terms, slots, weights, fields)


def merge_small_segments(segments: Sequence[Segment], *, ratio: int = 6) -> tuple[Segment, ...]:
    """Merge small segments at the end, so that each is at least `ratio` times its successor."""
    # As in a log-structured merge tree: sizes fall geometrically, so there are only O(log n)
    # segments to look a term up in, and a posting is copied only O(log n) times.
    merged = list(segments)
    while len(merged) > 1:
        last, before = merged[-1], merged[-2]
        if before.end - before.start > ratio * (last.end - last.start):
            break
        merged[-2:] = [merge_segments((before, last))]
    return tuple(merged)


def _make_segment(
    start: int, end: int, terms: Ints, slots: Ints, weights: Floats, fields: Bytes
) -> Segment:
    # Tools without any term: a placeholder that no lookup finds keeps the arrays non-empty, which
    # `reduceat` requires.
    if not len(terms):
        terms, slots = np.array([-1], np.int32), np.array([start], np.int32)
        weights, fields = np.zeros(1, np.float32), np.zeros(1, np.uint8)
    order = np.argsort(terms, kind="stable")
    terms, weights = terms[order], weights[order]
    firsts = np.flatnonzero(np.concatenate([[True], terms[1:] != terms[:-1]]))
    offsets = np.append(firsts, len(terms)).astype(np.int32)
    # In double precision: the weights of removed tools are subtracted from these sums later, and
    # must leave nothing behind.
    wide = weights.astype(np.float64)
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
