"""Rank tools by vector similarity, in any language that the embedder knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...embedders.arrays import Floats, Ints
from ...embedders.embedder import (
    Embedder,
    dimension_error,
    normalize_rows,
    vocabulary_coverage,
)
from ...embedders.query_vectors import QueryVectors
from ...embedders.threads import one_thread
from ..analyzer import latin_share
from ..hit import QueryVector, Reason
from ..ranking import RankingRequest
from ..vectors import Vectors
from .exact import is_tool_name

# Encoding is most of what a search costs. Of a long request, the clauses with most known words (by
# idf) are encoded, and the mean of their vectors stands for the whole.
MAX_ENCODED_CLAUSES = 12
_MAX_CLAUSES_BESIDE_WHOLE = 4
_MAX_CLAUSE_CHARS = 300
# The approximate scan returns four times the candidates, of which the exact similarity picks the
# best. docs/decisions/ranking.md: then no set differs from an exact scan by a tenth of a point.
RESCORE_FACTOR = 4.0


class Dense:
    """Ranks by the vectors of one embedder: the whole request, and each of its clauses.

    In large catalogs, `rescore_factor` times as many vectors as candidates are compared exactly.
    """

    # In `search_arm` events and in metrics, so it stays even if the class is renamed.
    event_name = "dense"

    def __init__(
        self,
        embedder: Embedder,
        *,
        weight: float = 1.0,
        rescore_factor: float = RESCORE_FACTOR,
    ) -> None:
        self.embedder = embedder
        self.weight = weight
        self.rescore_factor = rescore_factor
        self.queries = QueryVectors(embedder)

    def rank(self, request: RankingRequest) -> DenseRanking | None:
        """Compare the request with every visible tool that has a vector."""
        vectors = request.index.vectors.get(self.embedder.id)
        text = request.query.words
        # A query that is a tool's name needs no vectors: encoding is most of what a search costs.
        if vectors is None or not vectors.count or not text or is_tool_name(request):
            return None
        trust = self.weight * (latin_share(text) if self.embedder.is_latin_only else 1.0)
        trust *= vocabulary_coverage(self.embedder, text)
        if trust <= 0:  # an unknown script; the engine has a note about it
            return None
        chosen = _chosen_clauses(request)
        views = self._views(text, tuple(request.clauses[place] for place in chosen))
        if views.shape[1] != vectors.dimensions:
            raise dimension_error(self.embedder.id, views.shape[1], vectors.dimensions)
        with one_thread():
            mean, deviation = vectors.score_statistics(views)
            near, similarity = vectors.scan(views, request.allowed, count=request.depth)
            best = ((similarity - mean) / deviation).max(axis=1)
            if vectors.lead is not None:  # the scan was approximate
                near = request.top_slots(near, best, int(self.rescore_factor * request.depth))
                similarity = vectors.similarity(views, near)
                best = ((similarity - mean) / deviation).max(axis=1)
            near = request.top_slots(near, best, request.depth)
        return DenseRanking(
            vectors,
            views,
            mean,
            deviation,
            chosen,
            clause_count=len(request.clauses),
            candidates=near,
            trust=trust,
            embedder=self.embedder.id,
        )

    def _views(self, text: str, clauses: tuple[str, ...]) -> Floats:
        """The vector of the whole request, then one for each of its clauses, if it has several."""
        if len(clauses) < 2:
            return self.queries.encode((text,))
        if len(clauses) <= _MAX_CLAUSES_BESIDE_WHOLE:
            return self.queries.encode((text, *clauses))
        rows = self.queries.encode([clause[:_MAX_CLAUSE_CHARS] for clause in clauses])
        return np.concatenate([normalize_rows(rows.mean(axis=0, keepdims=True)), rows])


def _chosen_clauses(request: RankingRequest) -> tuple[int, ...]:
    """The clauses to encode, in the order of the text."""
    count = len(request.clauses)
    if count <= MAX_ENCODED_CLAUSES:
        return tuple(range(count))
    idf = {term.text: term.idf for term in request.known_terms}
    mass = [sum(idf.get(text, 0.0) for text in {*clause}) for clause in request.clause_terms]
    return tuple(sorted(sorted(range(count), key=lambda c: -mass[c])[:MAX_ENCODED_CLAUSES]))


@dataclass(frozen=True, slots=True)
class DenseRanking:
    """Vector similarity for one request; `views` has the whole first, then the `chosen` clauses."""

    vectors: Vectors
    views: Floats
    mean: Floats
    deviation: Floats
    chosen: tuple[int, ...]
    clause_count: int
    candidates: Ints
    trust: float
    embedder: str = ""
    arm: str = "meaning"

    @property
    def query_vector(self) -> QueryVector:
        """The whole request as it was encoded."""
        return QueryVector(self.embedder, self.views[0])

    def scores_at(self, slots: Ints) -> Floats:
        """Z-scores of the similarity; 0, the catalog's mean, for a tool without a vector yet."""
        return self._standard_scores(slots)[:, 0]

    def clause_scores(self, slots: Ints) -> Floats:
        """The z-scores of some slots, times trust: for the whole, then for each clause alone."""
        rows = np.zeros((1 + self.clause_count, len(slots)), np.float32)
        places = [0, *(1 + place for place in self.chosen)]
        rows[places] = np.float32(self.trust) * self._standard_scores(slots).T
        return rows

    def _standard_scores(self, slots: Ints) -> Floats:
        # Each view has its own mean and deviation.
        standard = (self.similarity(slots) - self.mean) / self.deviation
        return standard * self.vectors.present[slots, None]

    def similarity(self, slots: Ints) -> Floats:
        """The cosine of each slot (rows) with each view (columns)."""
        with one_thread():
            return self.vectors.similarity(self.views, slots)

    def explain(self, slot: int) -> Reason | None:
        """Whether a tool has a vector to be compared with."""
        return Reason(self.arm) if self.vectors.present[slot] else None
