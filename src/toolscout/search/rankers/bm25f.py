"""BM25F: rank tools by the query's words, weighted by rarity and field."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import log, sqrt
from typing import NamedTuple

from .. import kernel
from ..analyzer import is_english
from ..arrays import Floats, Ints
from ..fields import FIELDS
from ..hit import Reason
from ..lexicon import Term
from ..postings import PostingList
from ..ranking import RankingRequest

# Beside 1.0 for an embedder. The optimum is flat: docs/decisions/ranking.md has other weights.
WEIGHT = 0.8
# Ties with the last candidate are included, up to this many times the wanted number.
_MAX_TIE_FACTOR = 3


class BM25F:
    """The lexical ranker, trusted as far as the catalog knows the query's words.

    Trust is `weight` times the known share of the query's words (by idf) to the power of `doubt`,
    or of `doubt_in_english` for plain English. There unknown words are names and small talk; in
    other languages they are what the query is about.
    """

    # In `search_arm` events and in metrics, so it stays even if the class is renamed.
    event_name = "bm25f"

    def __init__(
        self, *, weight: float = WEIGHT, doubt: float = 1.0, doubt_in_english: float = 0.5
    ) -> None:
        self.weight = weight
        self.doubt = doubt
        self.doubt_in_english = doubt_in_english

    def rank(self, request: RankingRequest) -> LexicalRanking | None:
        """Score the tools that contain words of the query."""
        index = request.index
        known = request.known_terms
        if not known:
            return None
        coverage = 1.0
        trust = self.weight
        if unknown := len({*request.terms}) - len(known):
            # The idf of a term with document frequency 0: an unknown word could not be rarer, and
            # weighs at least as much as any known one.
            max_idf = log(1 + (len(index) + 0.5) / 0.5)
            mass = sum([t.posting_list.idf for t in known])
            coverage = mass / (mass + unknown * max_idf)
            doubt = self.doubt_in_english if is_english(request.query.words) else self.doubt
            trust *= coverage**doubt
        return LexicalRanking.of(
            request, known, coverage=coverage, trust=trust, clause_terms=request.clause_terms
        )


class LexicalRanking(NamedTuple):
    """BM25F scores of all tools for one request.

    `terms` are the query's known terms, rarest first. `scores` has a score for every slot; `mean`
    and `deviation` describe the distribution of such scores over the catalog. `coverage` is the
    share of the query's words, by idf, that the catalog knows. `clause_terms` has the terms of each
    clause in the order of the text.
    """

    terms: Sequence[Term]
    posting_lists: Sequence[PostingList]
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
        clause_terms: Sequence[Sequence[str]],
        arm: str = "words",
    ) -> LexicalRanking:
        """Score all tools by some terms of the catalog."""
        terms = sorted(terms)
        lists = [term.posting_list for term in terms]
        scores, best = kernel.score_slots(lists, request.allowed, request.depth)
        if len(best) > _MAX_TIE_FACTOR * request.depth:
            best = request.top_slots(best, scores.take(best), request.depth)
        # Mean and variance of a sum follow from those of its terms, which the lexicon has, so no
        # pass over all scores is needed. Adding variances assumes that terms occur independently;
        # that is not quite true, but z-scores only need a stable scale. The scale is also the same
        # for every caller, however few tools are visible.
        mean = sum([postings.mean for postings in lists])
        variance = sum([postings.variance for postings in lists])
        deviation = sqrt(max(kernel.MIN_VARIANCE, variance))
        return cls(terms, lists, scores, mean, deviation, best, coverage, trust, clause_terms, arm)

    def scores_at(self, slots: Ints) -> Floats:
        """The z-scores of some slots."""
        # In place: `take` has made a copy.
        scores = self.scores.take(slots)
        scores -= self.mean
        scores /= self.deviation
        return scores

    def score(self, slot: int) -> float:
        """The z-score of a single slot."""
        return (float(self.scores[slot]) - self.mean) / self.deviation

    def clause_scores(self, slots: Ints) -> Floats:
        """The z-scores of some slots for each clause alone, times trust."""
        columns = {term.text: column for column, term in enumerate(self.terms)}
        # A row per clause, a byte per term: whether the clause contains the term.
        membership = bytearray(len(self.clause_terms) * len(columns))
        starts = range(0, len(membership), len(columns))
        for start, clause in zip(starts, self.clause_terms, strict=True):
            for text in clause:
                if text in columns:
                    membership[start + columns[text]] = 1
        fits = kernel.clause_scores(self.posting_lists, bytes(membership), slots, len(self.scores))
        fits *= self.trust
        return fits

    def idf_share(self, slot: int) -> float:
        """The share of the query's words, by idf, that a tool has; unknown words count too."""
        mass = kernel.idf_mass(self.posting_lists, slot)
        return self.coverage * mass / sum([postings.idf for postings in self.posting_lists])

    def explain(self, slot: int) -> Reason | None:
        """The query's words that a tool has, and the fields with them."""
        found: list[str] = []
        fields = 0
        score = 0.0
        in_order = list(dict.fromkeys(chain.from_iterable(self.clause_terms)))
        for term in sorted(self.terms, key=lambda term: in_order.index(term.text)):
            for posting in term.segment_postings:
                if (place := posting.position(slot)) is not None:
                    found.append(term.text)
                    fields |= int(posting.segment.fields[place])
                    score += term.posting_list.idf * float(posting.segment.weights[place])
        if not found:
            return None
        named = ", ".join(f for bit, f in enumerate(FIELDS) if fields >> bit & 1)
        return Reason(self.arm, field=named, words=tuple(found), score=round(score, 3))
