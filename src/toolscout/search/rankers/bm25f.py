"""BM25F over the index's postings: words, weighed by how rare they are and where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from ..fields import FIELDS
from ..hit import Reason
from ..index import Index
from ..postings import Segment
from ..ranking import Floats, Ints, Request
from ..text import terms

WEIGHT = 0.8
BLINDNESS = 1.0
_SMALL = 1e-6


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the query as the index knows it."""

    text: str
    idf: float
    parts: tuple[tuple[Segment, int, int], ...]
    mean: float
    variance: float


class BM25F:
    """The lexical arm; trusted as far as the catalog knows the query's words."""

    def __init__(self, *, weight: float = WEIGHT) -> None:
        self.weight = weight

    def rank(self, request: Request) -> Words | None:
        """Score every tool that has a word of the query."""
        index = request.index
        texts = list(dict.fromkeys(request.terms))
        known = _look_up(index, texts)
        if not known:
            return None
        unknown = len(texts) - len(known)
        rarest = log(1 + (len(index) + 0.5) / 0.5)
        mass = sum(t.idf for t in known)
        coverage = mass / (mass + unknown * rarest)
        scores = _scores(index, known)
        return Words(
            terms=known,
            scores=scores,
            candidates=_best(request, known, scores),
            mean=sum(t.idf * t.mean for t in known),
            deviation=sqrt(max(sum(t.idf * t.idf * t.variance for t in known), _SMALL)),
            coverage=coverage,
            trust=self.weight * coverage**BLINDNESS,
            clauses=tuple(frozenset(terms(c)) for c in request.clauses[1:] and request.clauses),
        )


@dataclass(frozen=True, slots=True)
class Words:
    """The lexical view of one request.

    `mean` and `deviation` are over the whole catalog, as if words came independently; `coverage`
    is the share of the query's words, by rarity, that the catalog knows.
    """

    terms: Sequence[Term]
    scores: Floats
    candidates: Ints
    mean: float
    deviation: float
    coverage: float
    trust: float
    clauses: tuple[frozenset[str], ...] = ()
    arm: str = "words"

    def at(self, slots: Ints) -> Floats:
        """Standardised scores."""
        return (self.scores[slots] - np.float32(self.mean)) / np.float32(self.deviation)

    def parts(self, slots: Ints) -> Floats:
        """How the words of each clause alone see some slots."""
        gains = {t.text: t.idf * _weights(t, slots) for t in self.terms}
        rows: list[Floats] = []
        for clause in self.clauses:
            had = [t for t in self.terms if t.text in clause]
            mean = sum(t.idf * t.mean for t in had)
            spread = sqrt(max(sum(t.idf * t.idf * t.variance for t in had), _SMALL))
            summed = np.sum([gains[t.text] for t in had], axis=0) if had else np.zeros(len(slots))
            rows.append(np.float32(self.trust) * ((summed - mean) / spread).astype(np.float32))
        return np.stack(rows)

    def share(self, slot: int) -> float:
        """How much of the query's words, by rarity, a tool has."""
        mass = sum(t.idf for t in self.terms)
        had = sum(t.idf for t in self.terms if any(_place(p, slot) is not None for p in t.parts))
        return self.coverage * had / mass

    def why(self, slot: int) -> Reason | None:
        """The words a tool has, and the fields they stand in."""
        found: list[str] = []
        fields = 0
        score = 0.0
        for term in self.terms:
            for part in term.parts:
                if (place := _place(part, slot)) is not None:
                    found.append(term.text)
                    fields |= int(part[0].fields[place])
                    score += term.idf * float(part[0].weights[place])
        if not found:
            return None
        named = ", ".join(f for bit, f in enumerate(FIELDS) if fields >> bit & 1)
        return Reason(self.arm, field=named, words=tuple(found), score=round(score, 3))


def _weights(term: Term, slots: Ints) -> Floats:
    """The weight of a term in each of some slots."""
    found = np.zeros(len(slots), np.float32)
    for segment, start, end in term.parts:
        held = segment.slots[start:end]
        places = np.minimum(held.searchsorted(slots), end - start - 1)
        found += np.where(held[places] == slots, segment.weights[start:end][places], np.float32(0))
    return found


def _place(part: tuple[Segment, int, int], slot: int) -> int | None:
    """Where a slot stands in a term's postings."""
    segment, start, end = part
    if not segment.start <= slot < segment.end:
        return None
    place = start + int(segment.slots[start:end].searchsorted(slot))
    return place if place < end and segment.slots[place] == slot else None


def _scores(index: Index, terms: Sequence[Term]) -> Floats:
    """The score of every slot, allowed or not."""
    slots = [s.slots[a:b] for t in terms for s, a, b in t.parts]
    gains = [s.weights[a:b] * np.float32(t.idf) for t in terms for s, a, b in t.parts]
    summed = np.bincount(np.concatenate(slots), np.concatenate(gains), minlength=index.size)
    return summed.astype(np.float32)


def _best(request: Request, terms: Sequence[Term], scores: Floats) -> Ints:
    """The best slots by words alone.

    The rarest word's tools give a bound that makes a sort over all tools needless.
    """
    depth = request.depth
    scores = np.where(request.allowed, scores, np.float32(0))
    rare = max(terms, key=lambda t: t.idf)
    bound = _bound(np.concatenate([scores[s.slots[a:b]] for s, a, b in rare.parts]), depth)
    chosen = np.flatnonzero(scores >= bound if bound > 0 else scores > 0)
    if len(chosen) > depth:
        best = np.argpartition(scores[chosen], len(chosen) - depth)[-depth:]
        chosen = chosen[best]
    return chosen.astype(np.int32)


def _bound(scores: Floats, depth: int) -> float:
    """A score that at least `depth` tools reach; zero if the rarest word has too few tools."""
    if len(scores) <= depth:
        return 0.0
    return float(np.partition(scores, len(scores) - depth)[len(scores) - depth])


def _look_up(index: Index, texts: list[str]) -> list[Term]:
    """The words that living tools have, with statistics as if the dead had never been."""
    numbers = [(t, n) for t in texts if (n := index.shared.vocabulary.get(t)) is not None]
    if not numbers or not len(index):
        return []
    wanted = np.array([n for _, n in numbers], np.int32)
    bounds = [(segment, segment.find(wanted)) for segment in index.segments]
    found: list[Term] = []
    for place, (text, number) in enumerate(numbers):
        parts = tuple((s, *b[place]) for s, b in bounds if b[place][0] < b[place][1])
        if term := _term(index, text, parts, index.lost.get(number, (0, 0.0, 0.0))):
            found.append(term)
    return found


def _term(
    index: Index,
    text: str,
    parts: tuple[tuple[Segment, int, int], ...],
    lost: tuple[int, float, float],
) -> Term | None:
    count = sum(b - a for _, a, b in parts) - lost[0]
    if count <= 0:
        return None
    size = len(index)
    total = sum(float(s.weights[a:b].sum()) for s, a, b in parts) - lost[1]
    squares = sum(float(s.weights[a:b] @ s.weights[a:b]) for s, a, b in parts) - lost[2]
    mean = total / size
    idf = log(1 + (size - count + 0.5) / (count + 0.5))
    return Term(text, idf, parts, mean=mean, variance=max(0.0, squares / size - mean * mean))
