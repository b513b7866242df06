"""BM25F over the index's postings: words, weighed by how rare they are and where they stand."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log, sqrt

import numpy as np
import numpy.typing as npt

from ..fields import FIELDS
from ..hit import Reason
from ..lexicon import Term
from ..ranking import Floats, Ints, Request, distinct
from ..text import is_english

Sums = npt.NDArray[np.float32] | npt.NDArray[np.float64]

WEIGHT = 0.8
_SMALL = 1e-6
_MANY = 30_000
_WIDER = 6
_REPEATS = 3
_ENOUGH = 2_000
_AT_MOST = 12_000
"""How many postings are summed for all tools; of commoner words only what can matter is read."""


class BM25F:
    """The lexical arm; trusted as far as the catalog knows the query's words.

    `doubt` is how fast trust falls with the share of words that it does not know, and
    `doubt_at_home` the same for plain English: there they are names and small talk, not another
    language.
    """

    def __init__(
        self, *, weight: float = WEIGHT, doubt: float = 1.0, doubt_at_home: float = 0.5
    ) -> None:
        self.weight = weight
        self.doubt = doubt
        self.doubt_at_home = doubt_at_home

    def rank(self, request: Request) -> Words | None:
        """Score the tools that have words of the query."""
        index = request.index
        texts = dict.fromkeys(request.terms)
        known = request.known(texts)
        if not known:
            return None
        rarest = log(1 + (len(index) + 0.5) / 0.5)
        mass = sum([t.idf for t in known])
        coverage = mass / (mass + (len(texts) - len(known)) * rarest)
        doubt = self.doubt_at_home if is_english(request.query.words) else self.doubt
        trust = self.weight * coverage**doubt
        return Words.of(request, known, coverage=coverage, trust=trust, needs=request.needs)


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a query's words, `ordered` by how rare they are.

    The postings of the rare ones stand one after another, those of each word up to its place in
    `ends`. `scores` has every slot's sum over them and over the common words, all of them but the
    `rest`: those are read only where they can matter.
    """

    ordered: Sequence[Term]
    rest: Sequence[Term]
    slots: Ints
    gains: Floats
    ends: Sequence[int]
    scores: Sums

    @classmethod
    def of(cls, ordered: Sequence[Term], *, size: int, is_large: bool) -> Reading:
        """Read words that come rarest first."""
        cut = _cut(ordered, is_large=is_large)
        rare, rest = ordered[:cut], ordered[cut:]
        slots = np.concatenate([t.slots for t in rare])
        gains = np.concatenate([t.gains for t in rare])
        ends = list(accumulate([len(t.slots) for t in rare]))
        scores: Sums = np.bincount(slots, gains, minlength=size)  # pyright: ignore[reportAssignmentType] # weighed counts are floats
        if not is_large:
            scores = scores.astype(np.float32)
            for term in rest:
                if term.laid is not None:
                    scores += term.laid
            rest = [term for term in rest if term.laid is None]
        return cls(ordered, rest, slots, gains, ends, scores)

    def at(self, slots: Ints) -> Floats:
        """What all the words together give some slots."""
        summed = self.scores.take(slots).astype(np.float32, copy=False)
        for term in self.rest:
            summed += term.at(slots)
        return summed

    def each(self, slots: Ints) -> Floats:
        """What each word gives some slots: a row a word, in order."""
        table = np.zeros((len(self.ordered), len(slots)), np.float32)
        column = np.zeros(len(self.scores), np.int32)
        column[slots] = np.arange(1, len(slots) + 1)
        columns = column.take(self.slots)
        found = columns.nonzero()[0]
        rows = np.array(self.ends).searchsorted(found, side="right")
        table[rows, columns.take(found) - 1] = self.gains.take(found)
        for row in range(len(self.ends), len(self.ordered)):
            table[row] = self.ordered[row].at(slots)
        return table

    def held(self, slot: int) -> list[Term]:
        """The words that a slot has."""
        places = (self.slots == slot).nonzero()[0].tolist()
        rare = [self.ordered[bisect(self.ends, place)] for place in places]
        return rare + [term for term in self.ordered[len(self.ends) :] if term.gain(slot)]


@dataclass(frozen=True, slots=True)
class Words:
    """The lexical view of one request.

    `coverage` is the share of the query's words, by rarity, that the catalog knows; `expected` is
    what they give a tool on average, and how far that varies.
    """

    terms: Sequence[Term]
    read: Reading
    expected: tuple[float, float]
    candidates: Ints
    coverage: float
    trust: float
    needs: Sequence[Sequence[str]] = ()
    arm: str = "words"

    @classmethod
    def of(
        cls,
        request: Request,
        terms: Sequence[Term],
        *,
        coverage: float,
        trust: float,
        needs: Sequence[Sequence[str]],
        arm: str = "words",
    ) -> Words:
        """What some words of the catalog say of a request; `needs` has those of each clause."""
        index = request.index
        read = Reading.of(sorted(terms), size=index.size, is_large=len(index) > _MANY)
        best = _best(request, read)
        return cls(terms, read, _expected(terms), best, coverage, trust, needs, arm)

    def at(self, slots: Ints) -> Floats:
        """Standardised scores, the spread taken as if words came independently."""
        mean, deviation = self.expected
        return (self.read.at(slots) - np.float32(mean)) / np.float32(deviation)

    def score(self, slot: int) -> float:
        """The same for a single slot."""
        mean, deviation = self.expected
        rest = [term.gain(slot) for term in self.read.rest]
        return (float(self.read.scores[slot]) + sum(rest) - mean) / deviation

    def parts(self, slots: Ints) -> Floats:
        """How the words of each clause alone see some slots."""
        words = self.read.ordered
        places = {word.text: place for place, word in enumerate(words)}
        said = bytearray(len(self.needs) * len(words))  # a row a clause, a column a word
        for start, need in zip(range(0, len(said), len(words)), self.needs, strict=True):
            for text in need:
                if text in places:
                    said[start + places[text]] = 1
        has = np.frombuffer(said, np.uint8).reshape(-1, len(words)).astype(np.float32)
        known = np.array([(word.mean, word.variance) for word in words], np.float32)
        mean, variance = (has @ known).T[:, :, None]
        louder: Floats = np.float32(self.trust) / np.sqrt(np.maximum(variance, np.float32(_SMALL)))
        return (has @ self.read.each(slots) - mean) * louder

    def share(self, slot: int) -> float:
        """How much of the query's words, by rarity, a tool has."""
        held = sum([t.idf for t in self.read.held(slot)])
        return self.coverage * held / sum([t.idf for t in self.terms])

    def why(self, slot: int) -> Reason | None:
        """The words a tool has, and the fields they stand in."""
        found: list[str] = []
        fields = 0
        score = 0.0
        for term in self.terms:
            for posting in term.postings:
                if (place := posting.place(slot)) is not None:
                    found.append(term.text)
                    fields |= int(posting.segment.fields[place])
                    score += term.idf * float(posting.segment.weights[place])
        if not found:
            return None
        named = ", ".join(f for bit, f in enumerate(FIELDS) if fields >> bit & 1)
        return Reason(self.arm, field=named, words=tuple(found), score=round(score, 3))


def _expected(terms: Sequence[Term]) -> tuple[float, float]:
    """What words together give a tool on average, and how far that varies."""
    variance = sum([t.variance for t in terms])
    return sum([t.mean for t in terms]), sqrt(variance if variance > _SMALL else _SMALL)


def _cut(ordered: Sequence[Term], *, is_large: bool) -> int:
    """How many words, the rarest first, are read posting by posting."""
    read = 0
    for place, term in enumerate(ordered):
        is_costly = read + term.tools > _AT_MOST if is_large else term.laid is not None
        if is_costly and read >= (_ENOUGH if is_large else 1):
            return place
        read += term.tools
    return len(ordered)


def _best(request: Request, read: Reading) -> Ints:
    """The best slots a caller may see, more than were asked for where that is easier.

    Where enough tools have one of the rarer words, a tool that has none is not among the best; what
    was left to be read is then read for the best of them only.
    """
    depth = request.depth
    if len(read.slots) < depth:
        chosen = (request.allowed & (read.scores > 0)).nonzero()[0].astype(np.int32)
        return request.leading(chosen, read.at(chosen), depth)
    slots = read.slots
    if request.allowed is not request.index.alive or len(request.index) < request.index.size:
        slots = slots.compress(request.allowed.take(slots))
    several = _REPEATS * depth * (_WIDER if read.rest else 1)  # a slot stands there once a word
    if len(slots) > several:
        held = read.scores.take(slots)
        least = np.partition(held, len(held) - several)[len(held) - several]
        slots = slots.compress(held >= least)
    chosen = distinct(slots)
    if not read.rest and len(chosen) <= _REPEATS * depth:
        return chosen
    return request.leading(chosen, read.at(chosen), depth)
