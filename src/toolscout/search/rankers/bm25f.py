"""BM25F: rank tools by the query's words, weighted by rarity and field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Self

import numpy as np

from ...embedders.arrays import Floats, Ints
from ..analyzer import needs_bigrams, terms_of_words, tokenize, word_forms
from ..fields import FIELDS, searched_texts
from ..hit import Reason
from ..lexicon import Term, score_statistics
from ..ranking import RankingRequest

# Beside 1.0 for an embedder. The optimum is flat: docs/decisions/ranking.md has other weights.
WEIGHT = 0.8


class BM25F:
    """The lexical ranker, trusted as far as the catalog knows the query's words.

    Trust is `weight` times the known share of the query's words (by idf) to the power of `doubt`.
    """

    # In `search_arm` events and in metrics, so it stays even if the class is renamed.
    event_name = "bm25f"

    def __init__(self, *, weight: float = WEIGHT, doubt: float = 1.0) -> None:
        self.weight = weight
        self.doubt = doubt

    def rank(self, request: RankingRequest) -> WordRanking | None:
        """Score the tools that contain words of the query."""
        known = request.known_terms
        if not known:
            return None
        mass = sum([term.idf for term in known])
        unknown = len({*request.terms}) - len(known)
        coverage = mass / (mass + unknown * _max_idf(len(request.index)))
        # Few tools have few words. So for a caller who sees few of many tools, an unknown word says
        # less about the request: it is as rare as the visible tools can tell.
        visible = mass / (mass + unknown * _max_idf(int(np.count_nonzero(request.allowed))))
        trust = self.weight * visible**self.doubt
        return WordRanking.of(request, known, coverage=coverage, trust=trust, arm="words")


def _max_idf(tools: int) -> float:
    """The idf of a term that none of so many tools has: no known word weighs more."""
    return log(1 + (tools + 0.5) / 0.5)


@dataclass(frozen=True, slots=True)
class LexicalRanking:
    """BM25F scores of all tools for some terms.

    `scores` has a score for every slot; `mean` and `deviation` describe the distribution of such
    scores over the catalog. `coverage` is the share of the query's words, by idf, that the catalog
    knows.
    """

    terms: Sequence[Term]
    scores: Floats
    mean: float
    deviation: float
    candidates: Ints
    coverage: float
    trust: float
    request: RankingRequest
    arm: str

    @property
    def clause_terms(self) -> Sequence[Sequence[str]]:
        """The terms of each clause."""
        return self.request.clause_terms

    @classmethod
    def of(
        cls,
        request: RankingRequest,
        terms: Sequence[Term],
        *,
        coverage: float,
        trust: float,
        arm: str,
    ) -> Self:
        """Score all tools by some terms of the catalog."""
        slots = np.concatenate([term.slots for term in terms])
        gains = np.concatenate([term.gains for term in terms])
        scores = np.bincount(slots, gains, minlength=request.index.size).astype(np.float32)
        found = np.flatnonzero(request.allowed & (scores > 0)).astype(np.int32)
        best = request.top_slots(found, scores.take(found), request.depth)
        mean, deviation = score_statistics(terms)
        return cls(
            *(terms, scores, mean, deviation, best, coverage, trust),
            request=request,
            arm=arm,
        )

    def scores_at(self, slots: Ints) -> Floats:
        """The z-scores of some slots."""
        return (self.scores.take(slots) - np.float32(self.mean)) / np.float32(self.deviation)

    def idf_share(self, slot: int) -> float:
        """The share of the query's words, by idf, that a tool has; unknown words count too."""
        mass = sum([term.idf for term in self.terms if term.occurs_in(slot)])
        return self.coverage * mass / sum([term.idf for term in self.terms])

    def explain(self, slot: int) -> Reason | None:
        """The query's words that a tool has, and the fields with them."""
        found: list[str] = []
        fields = 0
        for term in self.terms:
            for posting in term.segment_postings:
                if (place := posting.position(slot)) is not None:
                    found.append(self._written_form(term.text, slot))
                    fields |= int(posting.segment.fields[place])
        if not found:
            return None
        named = ", ".join(f for bit, f in enumerate(FIELDS) if fields >> bit & 1)
        return Reason(self.arm, field=named, words=tuple(dict.fromkeys(found)))

    def _written_form(self, term: str, slot: int) -> str:
        """A term as a word of the query, or else of the tool: most terms are stems."""
        if needs_bigrams(term):
            return term
        tool = self.request.index.tool(slot)
        for text in (self.request.query.words, *searched_texts(tool)):
            for word in word_forms(tokenize(text)):
                if term in terms_of_words((word,)):
                    return word
        return term


@dataclass(frozen=True, slots=True)
class WordRanking(LexicalRanking):
    """BM25F scores of the request's own words, which belong to clauses."""

    def clause_scores(self, slots: Ints) -> Floats:
        """The z-scores of some slots, times trust: for the whole, then for each clause alone."""
        gains = {term.text: term.gains_at(slots) for term in self.terms}
        by_text = {term.text: term for term in self.terms}
        rows = np.zeros((1 + len(self.clause_terms), len(slots)), np.float32)
        rows[0] = self.scores_at(slots) * np.float32(self.trust)
        for row, clause in zip(rows[1:], self.clause_terms, strict=True):
            if known := [text for text in dict.fromkeys(clause) if text in gains]:
                mean, deviation = score_statistics(by_text[text] for text in known)
                row += (sum(gains[text] for text in known) - mean) * (self.trust / deviation)
        return rows
