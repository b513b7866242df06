"""The seam of search: a ranker takes a request and gives a ranking; a fusion makes one of many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from .hit import Reason
from .index import Index
from .lexicon import Term
from .query import Query

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

# Equal texts may differ by so much, according to where they stand in a matrix.
_NOISE = np.float32(1e-6)


def unique_slots(slots: Ints) -> Ints:
    """Each of some slots once, in order."""
    ordered = np.sort(slots)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered.compress(is_first)


@dataclass(frozen=True, slots=True)
class RankingRequest:
    """A query over one snapshot, for one caller.

    `allowed` says of each slot whether this caller may see it; a ranker never returns another.
    `terms` are those of the whole request, `needs` those of each of its `clauses`, and `words` what
    those of them are to the snapshot that a tool in the caller's sight has.
    `limit` is how many hits are wanted; `depth` is how many candidates an arm should offer.
    """

    query: Query
    index: Index
    allowed: Mask
    terms: Sequence[str] = ()
    known_terms: Sequence[Term] = ()
    clauses: Sequence[str] = ()
    clause_terms: Sequence[Sequence[str]] = ()
    limit: int = 5
    depth: int = 300

    def find_terms(self, texts: Iterable[str]) -> list[Term]:
        """Those of some words that a tool in the caller's sight has."""
        return self.index.find_terms(texts, self.allowed)

    def top_slots(self, slots: Ints, scores: Floats, count: int) -> Ints:
        """The best of some slots, in no order; of equals at the end the first by name.

        Then it does not matter in which order tools came into the catalog.
        """
        if len(slots) <= count:
            return slots
        ordered = scores.copy()
        ordered.partition(len(scores) - count)
        last = ordered[len(scores) - count]
        is_above = scores > last + _NOISE
        equals: list[int] = slots[(scores >= last - _NOISE) ^ is_above].tolist()
        above = slots[is_above]
        room = count - len(above)
        if len(equals) > room:
            equals = nsmallest(room, equals, key=lambda slot: self.index.tool(slot).name)
        return np.concatenate([above, np.array(equals, np.int32)])


class Ranking(Protocol):
    """How one arm sees the catalog."""

    @property
    def arm(self) -> str:
        """The name of the arm, as hits say it."""
        ...

    @property
    def candidates(self) -> Ints:
        """The slots this arm would have considered, in no order."""
        ...

    @property
    def trust(self) -> float:
        """How much the arm's word counts for this query; low where it is blind."""
        ...

    def scores_at(self, slots: Ints) -> Floats:
        """Scores in standard deviations above the catalog's mean, for any slots."""
        ...

    def explain(self, slot: int) -> Reason | None:
        """What speaks for a slot, if anything does."""
        ...


class ClauseRanking(Protocol):
    """A ranking that can also tell how each clause of a request sees the catalog."""

    def clause_scores(self, slots: Ints) -> Floats:
        """Standardised scores, a row a clause and a column a slot, already weighed by trust."""
        ...


def has_clause_scores(ranking: Ranking) -> TypeGuard[ClauseRanking]:
    """Whether a ranking can tell clauses apart."""
    return hasattr(ranking, "clause_scores")


class Ranker(Protocol):
    """One arm of search."""

    def rank(self, request: RankingRequest) -> Ranking | None:
        """Its view of a request; none if it has nothing to say."""
        ...


class FusedRanking(NamedTuple):
    """Slots, best first, and their scores."""

    slots: Ints
    scores: Floats


Fusion = Callable[[RankingRequest, Sequence[Ranking]], FusedRanking]
"""Makes one order out of several rankings."""
