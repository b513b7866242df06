"""Rank tools by vector similarity, in any language that the embedder knows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...errors import EmbedderError
from ..analyzer import latin_share, terms
from ..arrays import Floats, Ints
from ..embedders.embedder import Embedder, dimension_error, encode_texts, vocabulary_coverage
from ..hit import QueryVector, Reason
from ..preprocessing import drop_values, expand_abbreviations
from ..ranking import RankingRequest
from ..threads import one_thread
from ..vectors import Vectors
from .exact import is_tool_name

_CACHE_SIZE = 512
_MAX_KEPT_SPACES = 2
# The approximate scan returns four times the candidates, of which the exact similarity picks the
# best. docs/decisions/ranking.md: then no set differs from an exact scan by a tenth of a point.
RESCORE_FACTOR = 4.0


def capability_text(request: RankingRequest) -> str:
    """The text of a request without the values in it: they name no capability.

    A short value stays if the catalog has all its words: `S3` and `2FA` do name what tools do.
    """

    def is_kept(value: str) -> bool:
        words = dict.fromkeys(terms(value))
        is_short = value.count(" ") <= _MAX_KEPT_SPACES
        is_plain = is_short and not any(sign in value for sign in ("@", "://"))
        return is_plain and any(map(str.isalpha, value)) and _are_all_known(request, words)

    return drop_values(request.query.words, is_kept=is_kept)


def _are_all_known(request: RankingRequest, words: Collection[str]) -> bool:
    return bool(words) and len(request.find_terms(words)) == len(words)


class Dense:
    """Ranks by the vectors of one embedder: the whole request, and the best of its clauses.

    `view` gives the text of the whole request, by default without values. `clause_share` is the
    weight of the best clause against the whole. In large catalogs, `rescore_factor` times as many
    vectors as candidates are compared exactly.
    """

    # In `search_arm` events and in metrics, so it stays even if the class is renamed.
    event_name = "dense"

    def __init__(
        self,
        embedder: Embedder,
        *,
        weight: float = 1.0,
        clause_share: float = 0.5,
        view: Callable[[RankingRequest], str] = capability_text,
        rescore_factor: float = RESCORE_FACTOR,
    ) -> None:
        self.embedder = embedder
        self.weight = weight
        self.clause_share = clause_share
        self.view = view
        self.rescore_factor = rescore_factor
        self._encode = lru_cache(maxsize=_CACHE_SIZE)(self._encode_views)

    def rank(self, request: RankingRequest) -> DenseRanking | None:
        """Compare the request with every visible tool that has a vector."""
        vectors = request.index.vectors.get(self.embedder.id)
        text = request.query.words
        # A query that is a tool's name needs no vectors: encoding is most of what a search costs.
        if vectors is None or not vectors.count or not text or is_tool_name(request):
            return None
        trust = self.weight * (latin_share(text) if self.embedder.is_latin_only else 1.0)
        if trust <= 0:
            return None
        trust *= vocabulary_coverage(self.embedder, text)
        if trust <= 0:
            raise EmbedderError(f"{self.embedder.id} does not know the script of this request.")
        views = self._encode(self.query_texts(request))
        if views.shape[1] != vectors.dimensions:
            raise dimension_error(self.embedder.id, views.shape[1], vectors.dimensions)
        with one_thread():
            near, closeness = vectors.scan(views[0], request.allowed, count=request.depth)
            if vectors.lead is not None:  # the scan was approximate
                near = request.top_slots(near, closeness, int(self.rescore_factor * request.depth))
                closeness = vectors.similarity(views[:1], near)[:, 0]
            near = request.top_slots(near, closeness, request.depth)
            mean, deviation = vectors.score_statistics(views)
        return DenseRanking(
            vectors,
            views,
            mean,
            deviation,
            self.clause_share,
            candidates=near,
            trust=trust,
            embedder=self.embedder.id,
        )

    def query_texts(self, request: RankingRequest) -> tuple[str, ...]:
        """The texts that are encoded for a request: the whole, then each clause."""
        # A single clause is the whole again, so it costs no second encoding.
        whole = self.expand_text(request, self.view(request))
        if len(request.clauses) < 2:
            return whole, whole
        return (whole, *(self.expand_text(request, clause) for clause in request.clauses))

    def expand_text(self, request: RankingRequest, text: str) -> str:
        """Write out abbreviations whose words visible tools have."""
        return expand_abbreviations(text, lambda term: bool(request.find_terms((term,))))

    def _encode_views(self, texts: tuple[str, ...]) -> Floats:
        """One row per text; equal texts are encoded once."""
        distinct = list(dict.fromkeys(texts))
        rows = encode_texts(self.embedder, distinct, are_queries=True)
        return rows[[distinct.index(t) for t in texts]]


@dataclass(frozen=True, slots=True)
class DenseRanking:
    """Vector similarity for one request; `views` has the whole first, then each clause."""

    vectors: Vectors
    views: Floats
    mean: Floats
    deviation: Floats
    clause_share: float
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
        score = self._standardize(self.similarity(slots))
        return np.where(self.vectors.present[slots], score, np.float32(0)).astype(np.float32)

    def similarity_and_score(self, slot: int) -> tuple[float, float]:
        """The cosine of one slot with its closest view, and its z-score."""
        similarity = self.similarity(np.array([slot], np.int32))
        score = float(self._standardize(similarity)[0]) if self.vectors.present[slot] else 0.0
        return float(similarity.max()), score

    def _standardize(self, similarity: Floats) -> Floats:
        # Each view has its own mean and deviation. The best clause counts beside the whole, because
        # in a long request the whole is about many things and close to no single tool.
        standard = (similarity - self.mean) / self.deviation
        share = np.float32(self.clause_share)
        return (1 - share) * standard[:, 0] + share * standard[:, 1:].max(axis=1)

    def clause_scores(self, slots: Ints) -> Floats:
        """The z-scores of some slots for each clause alone, times trust."""
        standard = (self.similarity(slots) - self.mean) / self.deviation
        return np.float32(self.trust) * standard[:, 1:].T

    def similarity(self, slots: Ints) -> Floats:
        """The cosine of each slot (rows) with each view (columns)."""
        with one_thread():
            return self.vectors.similarity(self.views, slots)

    def explain(self, slot: int) -> Reason | None:
        """The similarity of a tool with the closest view."""
        if not self.vectors.present[slot]:
            return None
        closest = float(self.similarity(np.array([slot], np.int32)).max())
        return Reason(self.arm, score=round(closest, 3))
