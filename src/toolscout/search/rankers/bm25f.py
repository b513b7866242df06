"""BM25F over the index's postings: words, weighed by how rare they are and where they stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from ..fields import FIELDS
from ..hit import Reason
from ..index import Index
from ..postings import Posting
from ..ranking import Floats, Ints, Request
from ..text import terms

WEIGHT = 0.8
_SMALL = 1e-6
_MANY = 30_000
_AT_MOST = 20_000
"""How many postings are summed for all tools; of commoner words only what can matter is read."""


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the query as the index knows it, with the spread of its weight over the catalog."""

    text: str
    idf: float
    postings: tuple[Posting, ...]
    count: int
    mean: float
    variance: float

    def at(self, slots: Ints) -> Floats:
        """What it gives each of some slots."""
        weights = [p.at(slots) for p in self.postings]
        summed = weights[0] if len(weights) == 1 else np.sum(weights, axis=0)
        return np.float32(self.idf) * summed


class BM25F:
    """The lexical arm; trusted as far as the catalog knows the query's words.

    `blindness` is how fast trust falls with the share of words that it does not know.
    """

    def __init__(self, *, weight: float = WEIGHT, blindness: float = 1.0) -> None:
        self.weight = weight
        self.blindness = blindness

    def rank(self, request: Request) -> Words | None:
        """Score the tools that have words of the query."""
        index = request.index
        texts = list(dict.fromkeys(request.terms))
        known = _look_up(index, texts)
        if not known:
            return None
        rarest = log(1 + (len(index) + 0.5) / 0.5)
        mass = sum(t.idf for t in known)
        coverage = mass / (mass + (len(texts) - len(known)) * rarest)
        scores, rest, best = _scan(request, known)
        clauses = request.clauses if len(request.clauses) > 1 else ()
        return Words(
            terms=known,
            rest=rest,
            scores=scores,
            candidates=best,
            coverage=coverage,
            trust=self.weight * coverage**self.blindness,
            clauses=tuple(frozenset(terms(c)) for c in clauses),
        )


@dataclass(frozen=True, slots=True)
class Words:
    """The lexical view of one request.

    `scores` has every tool's sum over the rarer words, `rest` are the words left out of it;
    `coverage` is the share of the query's words, by rarity, that the catalog knows.
    """

    terms: Sequence[Term]
    rest: Sequence[Term]
    scores: Floats
    candidates: Ints
    coverage: float
    trust: float
    clauses: tuple[frozenset[str], ...] = ()
    arm: str = "words"

    def at(self, slots: Ints) -> Floats:
        """Standardised scores, the spread taken as if words came independently."""
        summed = self.scores[slots]
        for term in self.rest:
            summed = summed + term.at(slots)
        return _standard(summed, self.terms)

    def parts(self, slots: Ints) -> Floats:
        """How the words of each clause alone see some slots."""
        gains = {t.text: t.at(slots) for t in self.terms}
        nothing = np.zeros(len(slots), np.float32)
        rows: list[Floats] = []
        for clause in self.clauses:
            had = [t for t in self.terms if t.text in clause]
            summed = sum((gains[t.text] for t in had), nothing)
            rows.append(np.float32(self.trust) * _standard(summed, had))
        return np.stack(rows)

    def share(self, slot: int) -> float:
        """How much of the query's words, by rarity, a tool has."""
        mass = sum(t.idf for t in self.terms)
        had = (t for t in self.terms if any(p.place(slot) is not None for p in t.postings))
        return self.coverage * sum(t.idf for t in had) / mass

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


def _standard(summed: Floats, terms: Iterable[Term]) -> Floats:
    mean = variance = 0.0
    for term in terms:
        mean += term.idf * term.mean
        variance += term.idf * term.idf * term.variance
    return (summed - np.float32(mean)) / np.float32(sqrt(max(variance, _SMALL)))


def _scan(request: Request, known: Sequence[Term]) -> tuple[Floats, Sequence[Term], Ints]:
    """Sum the rarer words over all tools, and the commoner ones over the best of those.

    Where a long request meets a large catalog, most postings belong to words that nearly every
    tool has; a tool with none of the rarer words is never among the best.
    """
    ordered = sorted(known, key=lambda t: (-t.idf, t.text))
    read, cut = 0, 0
    while cut < len(ordered) and (not cut or read + ordered[cut].count <= _AT_MOST):
        read += ordered[cut].count
        cut += 1
    rare, rest = ordered[:cut], ordered[cut:]
    scores = _sum(request.index, rare)
    best = _best(request, rare, scores, depth=2 * request.depth if rest else request.depth)
    if rest and len(best) > request.depth:
        summed = scores[best] + sum((t.at(best) for t in rest), np.zeros(len(best), np.float32))
        best = request.leading(best, summed, request.depth)
    return scores, rest, best


def _sum(index: Index, terms: Sequence[Term]) -> Floats:
    """Every slot's sum over some words."""
    postings = [(t.idf, p) for t in terms for p in t.postings]
    slots = np.concatenate([p.slots for _, p in postings])
    gains = np.concatenate([p.weights * np.float32(idf) for idf, p in postings])
    return np.bincount(slots, gains, minlength=index.size).astype(np.float32)


def _best(request: Request, terms: Sequence[Term], scores: Floats, *, depth: int) -> Ints:
    """The best slots a caller may see; where many are touched, a bound spares sorting them all."""
    bound = _bound(request, terms, scores, depth) if request.index.size > _MANY else 0.0
    chosen = np.flatnonzero(scores >= bound if bound > 0 else scores)
    chosen = chosen[request.allowed[chosen]]
    return request.leading(chosen.astype(np.int32), scores[chosen], depth)


def _bound(request: Request, terms: Sequence[Term], scores: Floats, depth: int) -> float:
    """A score that `depth` tools reach, judged by the tools that have the rarest words."""
    held: list[Ints] = []
    enough = depth
    for term in terms:
        held += [p.slots[request.allowed[p.slots]] for p in term.postings]
        if sum(map(len, held)) > enough:
            some = scores[np.unique(np.concatenate(held))]
            if len(some) > depth:
                return float(np.partition(some, len(some) - depth)[len(some) - depth])
            enough *= 2
    return 0.0


def _look_up(index: Index, texts: Sequence[str]) -> list[Term]:
    """The words that living tools have, with statistics as if the dead had never been."""
    numbers = [(t, n) for t in texts if (n := index.shared.vocabulary.get(t)) is not None]
    if not numbers or not len(index):
        return []
    wanted = np.array([n for _, n in numbers], np.int32)
    columns = zip(*(segment.find(wanted) for segment in index.segments), strict=True)
    found = (
        _term(len(index), text, [p for p in column if p is not None], index.lost.get(number))
        for (text, number), column in zip(numbers, columns, strict=True)
    )
    return [term for term in found if term is not None]


def _term(
    size: int, text: str, postings: Sequence[Posting], lost: tuple[int, float, float] | None
) -> Term | None:
    gone, less, fewer = lost or (0, 0.0, 0.0)
    count = sum(p.end - p.start for p in postings) - gone
    if count <= 0:
        return None
    mean = (sum(p.total for p in postings) - less) / size
    square = (sum(p.squares for p in postings) - fewer) / size
    idf = log(1 + (size - count + 0.5) / (count + 0.5))
    return Term(text, idf, tuple(postings), count, mean, max(0.0, square - mean * mean))
