"""Inverted lists in flat arrays: who has a term, how much it weighs there, and in which fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]


Entry = tuple[float, int]
"""One term in one document: its weight, and the fields it stands in as bits."""


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

    def find(self, terms: Ints) -> list[tuple[int, int]]:
        """For each term the bounds of its postings; equal bounds if it has none."""
        places = np.searchsorted(self.terms, terms)
        inside = np.minimum(places, len(self.terms) - 1)
        known = self.terms[inside] == terms
        starts = np.where(known, self.offsets[inside], 0)
        ends = np.where(known, self.offsets[inside + 1], 0)
        return list(zip(starts.tolist(), ends.tolist(), strict=True))


def build(start: int, documents: Sequence[Mapping[int, Entry]]) -> Segment:
    """A segment for documents that take the slots from `start` on."""
    sizes = [len(d) for d in documents]
    total = sum(sizes)
    terms = np.fromiter((t for d in documents for t in d), np.int32, total)
    weights = np.fromiter((e[0] for d in documents for e in d.values()), np.float32, total)
    fields = np.fromiter((e[1] for d in documents for e in d.values()), np.uint8, total)
    slots = np.repeat(np.arange(start, start + len(documents), dtype=np.int32), sizes)
    return _sorted(start, start + len(documents), terms, slots, weights, fields)


def merge(segments: Sequence[Segment]) -> Segment:
    """One segment out of neighbouring ones."""
    if len(segments) == 1:
        return segments[0]
    terms = np.concatenate([np.repeat(s.terms, np.diff(s.offsets)) for s in segments])
    return _sorted(
        segments[0].start,
        segments[-1].end,
        terms,
        np.concatenate([s.slots for s in segments]),
        np.concatenate([s.weights for s in segments]),
        np.concatenate([s.fields for s in segments]),
    )


def settle(segments: Sequence[Segment], *, ratio: int = 6) -> tuple[Segment, ...]:
    """Merge small neighbours at the end, so that sizes fall geometrically and lookups stay few."""
    kept = list(segments)
    while len(kept) > 1:
        last, before = kept[-1], kept[-2]
        if before.end - before.start > ratio * (last.end - last.start):
            break
        kept[-2:] = [merge((before, last))]
    return tuple(kept)


def _sorted(
    start: int, end: int, terms: Ints, slots: Ints, weights: Floats, fields: Bytes
) -> Segment:
    order = np.argsort(terms, kind="stable")
    terms = terms[order]
    firsts = np.flatnonzero(np.r_[True, terms[1:] != terms[:-1]]) if len(terms) else np.empty(0)
    offsets = np.r_[firsts, len(terms)].astype(np.int32)
    unique = terms[firsts.astype(np.int64)] if len(terms) else np.array([-1], np.int32)
    if not len(terms):
        offsets = np.array([0, 0], np.int32)
    return Segment(start, end, unique, offsets, slots[order], weights[order], fields[order])


class Vocabulary:
    """Terms and their numbers; it only grows, so every snapshot can share it."""

    __slots__ = ("_ids", "terms")

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self.terms: list[str] = []

    def __len__(self) -> int:
        return len(self.terms)

    def get(self, term: str) -> int | None:
        """The number of a known term."""
        return self._ids.get(term)

    def add(self, term: str) -> int:
        """The number of a term, new or not."""
        number = self._ids.get(term)
        if number is None:
            number = len(self.terms)
            self.terms.append(term)
            self._ids[term] = number
        return number

    def add_all(self, terms: Iterable[str]) -> list[int]:
        """The numbers of several terms."""
        return [self.add(t) for t in terms]
