"""Vectors: what is meant, in any language the embedder knows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...errors import EmbedderError
from ..analyzer import latin_share, terms
from ..embedders.embedder import Embedder, dimension_error, encode_texts, legibility
from ..hit import Reason
from ..preprocessing import drop_values, expand_abbreviations
from ..ranking import Floats, Ints, RankingRequest
from ..vectors import Vectors, one_thread
from .exact import is_tool_name

_CACHE_SIZE = 512
_PHRASE = 3
RESCORE_FACTOR = 4.0


def capability_text(request: RankingRequest) -> str:
    """What a request asks for, without the values that it mentions.

    A short one stays if the catalog has all of its words: `S3` and `2FA` name what tools do.
    """

    def is_kept(value: str) -> bool:
        words = dict.fromkeys(terms(value))
        is_plain = value.count(" ") < _PHRASE and not any(sign in value for sign in ("@", "://"))
        return is_plain and any(map(str.isalpha, value)) and _are_all_known(request, words)

    return drop_values(request.query.words, is_kept=is_kept)


def _are_all_known(request: RankingRequest, words: Collection[str]) -> bool:
    return bool(words) and len(request.find_terms(words)) == len(words)


class Dense:
    """One embedder's arm: the whole request, and the best of its clauses if it has several.

    `view` is how the whole is read, by default without the values it mentions; `clause_share` is
    how much of the arm's word is the best clause's. Where vectors are many, `wider` times as many
    as are offered are compared exactly.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        weight: float = 1.0,
        clause_share: float = 0.5,
        view: Callable[[RankingRequest], str] = capability_text,
        wider: float = RESCORE_FACTOR,
    ) -> None:
        self.embedder = embedder
        self.weight = weight
        self.clause_share = clause_share
        self.view = view
        self.wider = wider
        self._encode = lru_cache(maxsize=_CACHE_SIZE)(self._encode_views)

    def rank(self, request: RankingRequest) -> DenseRanking | None:
        """Compare the request with every tool that has a vector."""
        vectors = request.index.vectors.get(self.embedder.id)
        text = request.query.words
        if vectors is None or not vectors.count or not text or is_tool_name(request):
            return None
        trust = self.weight * (latin_share(text) if self.embedder.is_latin_only else 1.0)
        if trust <= 0:
            return None
        trust *= legibility(self.embedder, text)
        if trust <= 0:
            raise EmbedderError(f"{self.embedder.id} does not know the script of this request.")
        views = self._encode(self.query_texts(request))
        if views.shape[1] != vectors.dimensions:
            raise dimension_error(self.embedder.id, views.shape[1], vectors.dimensions)
        with one_thread():
            near, closeness = vectors.scan(views[0], request.allowed, count=request.depth)
            if vectors.lead is not None:  # a scan along leading directions is only nearly right
                near = request.top_slots(near, closeness, int(self.wider * request.depth))
                closeness = vectors.similarity(views[:1], near)[:, 0]
            near = request.top_slots(near, closeness, request.depth)
            mean, deviation = vectors.score_statistics(views)
        return DenseRanking(
            vectors, views, mean, deviation, self.clause_share, candidates=near, trust=trust
        )

    def query_texts(self, request: RankingRequest) -> tuple[str, ...]:
        """The texts that stand for a request: the whole, then its clauses; one is as the whole."""
        whole = self.expand_text(request, self.view(request))
        if len(request.clauses) < 2:
            return whole, whole
        return (whole, *(self.expand_text(request, clause) for clause in request.clauses))

    def expand_text(self, request: RankingRequest, text: str) -> str:
        """A text of a request as one would say it, letters that stand for words written out."""
        return expand_abbreviations(text, lambda term: bool(request.find_terms((term,))))

    def _encode_views(self, texts: tuple[str, ...]) -> Floats:
        """A row a text, each different one encoded once."""
        different = list(dict.fromkeys(texts))
        rows = encode_texts(self.embedder, different, are_queries=True)
        return rows[[different.index(t) for t in texts]]


@dataclass(frozen=True, slots=True)
class DenseRanking:
    """The semantic view of one request: first the whole without its values, then each clause."""

    vectors: Vectors
    views: Floats
    mean: Floats
    deviation: Floats
    clause_share: float
    candidates: Ints
    trust: float
    arm: str = "meaning"

    def scores_at(self, slots: Ints) -> Floats:
        """Standardised similarity; zero, which is neutral, where a vector is still missing."""
        score = self._standardize(self.similarity(slots))
        return np.where(self.vectors.present[slots], score, np.float32(0)).astype(np.float32)

    def similarity_and_score(self, slot: int) -> tuple[float, float]:
        """How close one slot is to the nearest view, and its score."""
        similarity = self.similarity(np.array([slot], np.int32))
        score = float(self._standardize(similarity)[0]) if self.vectors.present[slot] else 0.0
        return float(similarity.max()), score

    def _standardize(self, similarity: Floats) -> Floats:
        standard = (similarity - self.mean) / self.deviation
        share = np.float32(self.clause_share)
        return (1 - share) * standard[:, 0] + share * standard[:, 1:].max(axis=1)

    def clause_scores(self, slots: Ints) -> Floats:
        """How each clause alone sees some slots."""
        standard = (self.similarity(slots) - self.mean) / self.deviation
        return np.float32(self.trust) * standard[:, 1:].T

    def similarity(self, slots: Ints) -> Floats:
        """The cosine of each slot (rows) with each view (columns)."""
        with one_thread():
            return self.vectors.similarity(self.views, slots)

    def explain(self, slot: int) -> Reason | None:
        """How close a tool is."""
        if not self.vectors.present[slot]:
            return None
        closest = float(self.similarity(np.array([slot], np.int32)).max())
        return Reason(self.arm, score=round(closest, 3))
