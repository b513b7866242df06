"""BM25F over the index's postings: words, weighed by how rare they are and where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import log, sqrt
from typing import NamedTuple

from .. import kernel
from ..analyzer import is_english
from ..fields import FIELDS
from ..hit import Reason
from ..lexicon import Term
from ..ranking import Floats, Ints, RankingRequest

WEIGHT = 0.8
_TIED = 3


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

    def rank(self, request: RankingRequest) -> LexicalRanking | None:
        """Score the tools that have words of the query."""
        index = request.index
        known = request.known_terms
        if not known:
            return None
        coverage = 1.0
        trust = self.weight
        if unknown := len({*request.terms}) - len(known):
            rarest = log(1 + (len(index) + 0.5) / 0.5)
            mass = sum([t.posting_list.idf for t in known])
            coverage = mass / (mass + unknown * rarest)
            doubt = self.doubt_at_home if is_english(request.query.words) else self.doubt
            trust *= coverage**doubt
        return LexicalRanking.of(
            request, known, coverage=coverage, trust=trust, needs=request.clause_terms
        )


class LexicalRanking(NamedTuple):
    """The lexical view of one request.

    `terms` are the query's words, the rarest first, and `scores` what they give every slot
    together; `mean` and `deviation` are those of such sums over the catalog, as if words came
    independently. `coverage` is the share of the words, by rarity, that the catalog knows, and
    `needs` has the words of each clause, in the order in which they were said.
    """

    terms: Sequence[Term]
    posting_lists: Sequence[kernel.PostingList]
    scores: Floats
    mean: float
    deviation: float
    candidates: Ints
    coverage: float
    trust: float
    clause_terms: Sequence[Sequence[str]] = ()
    arm: str = "words"

    @classmethod
    def of(
        cls,
        request: RankingRequest,
        terms: Sequence[Term],
        *,
        coverage: float,
        trust: float,
        needs: Sequence[Sequence[str]],
        arm: str = "words",
    ) -> LexicalRanking:
        """What some words of the catalog say of a request."""
        terms = sorted(terms)
        words = [term.posting_list for term in terms]
        scores, best = kernel.score_slots(words, request.allowed, request.depth)
        if len(best) > _TIED * request.depth:  # so many tools are equally good
            best = request.top_slots(best, scores.take(best), request.depth)
        mean = sum([word.mean for word in words])
        deviation = sqrt(max(kernel.MIN_VARIANCE, sum([word.variance for word in words])))
        return cls(terms, words, scores, mean, deviation, best, coverage, trust, needs, arm)

    def scores_at(self, slots: Ints) -> Floats:
        """Standardised scores."""
        scores = self.scores.take(slots)
        scores -= self.mean
        scores /= self.deviation
        return scores

    def score(self, slot: int) -> float:
        """The same for a single slot."""
        return (float(self.scores[slot]) - self.mean) / self.deviation

    def clause_scores(self, slots: Ints) -> Floats:
        """How the words of each clause alone see some slots."""
        places = {term.text: place for place, term in enumerate(self.terms)}
        said = bytearray(len(self.clause_terms) * len(places))  # a row a clause, a column a word
        for start, need in zip(range(0, len(said), len(places)), self.clause_terms, strict=True):
            for text in need:
                if text in places:
                    said[start + places[text]] = 1
        fits = kernel.clause_scores(self.posting_lists, bytes(said), slots, len(self.scores))
        fits *= self.trust
        return fits

    def idf_share(self, slot: int) -> float:
        """How much of the query's words, by rarity, a tool has."""
        held = kernel.idf_mass(self.posting_lists, slot)
        return self.coverage * held / sum([word.idf for word in self.posting_lists])

    def explain(self, slot: int) -> Reason | None:
        """The words a tool has, and the fields they stand in."""
        found: list[str] = []
        fields = 0
        score = 0.0
        said = list(dict.fromkeys(chain.from_iterable(self.clause_terms)))
        for term in sorted(self.terms, key=lambda term: said.index(term.text)):
            for posting in term.segment_postings:
                if (place := posting.position(slot)) is not None:
                    found.append(term.text)
                    fields |= int(posting.segment.fields[place])
                    score += term.posting_list.idf * float(posting.segment.weights[place])
        if not found:
            return None
        named = ", ".join(f for bit, f in enumerate(FIELDS) if fields >> bit & 1)
        return Reason(self.arm, field=named, words=tuple(found), score=round(score, 3))
