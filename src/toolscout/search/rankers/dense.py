"""Vectors: what is meant, in any language the embedder knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..clauses import without_values
from ..embedders.embedder import Embedder
from ..hit import Reason
from ..ranking import Floats, Ints, Request
from ..text import latin_share
from ..vectors import Vectors

WHOLE = 0.5
CLAUSE = 0.5


class Dense:
    """One embedder's arm: the whole request, and the best of its clauses."""

    def __init__(self, embedder: Embedder, *, weight: float = 1.0) -> None:
        self.embedder = embedder
        self.weight = weight

    def rank(self, request: Request) -> Meaning | None:
        """Compare the request with every tool that has a vector."""
        vectors = request.index.vectors.get(self.embedder.id)
        text = request.query.words
        if vectors is None or not vectors.count or not text:
            return None
        trust = self.weight * (latin_share(text) if self.embedder.is_latin_only else 1.0)
        if trust <= 0:
            return None
        parts = request.clauses if len(request.clauses) > 1 else (text,)
        whole, *clauses = self.embedder.encode([without_values(text), *parts])
        near = vectors.nearest(whole, request.allowed, count=request.depth)
        return Meaning(vectors, whole, clauses, candidates=near, trust=trust)


@dataclass(frozen=True, slots=True)
class Meaning:
    """The semantic view of one request."""

    vectors: Vectors
    whole: Floats
    clauses: Sequence[Floats]
    candidates: Ints
    trust: float
    arm: str = "meaning"

    def at(self, slots: Ints) -> Floats:
        """Standardised similarity; zero, which is neutral, where a vector is still missing."""
        score = WHOLE * self._standard(self.whole, slots)
        best = self._standard(self.clauses[0], slots)
        for clause in self.clauses[1:]:
            best = np.maximum(best, self._standard(clause, slots))
        present = self.vectors.present[slots]
        return np.where(present, score + np.float32(CLAUSE) * best, np.float32(0))

    def similarity(self, slots: Ints) -> Floats:
        """The plain cosine of the closest view of the request."""
        views = [self.whole, *self.clauses]
        return np.max([self.vectors.similarity(v, slots) for v in views], axis=0)

    def why(self, slot: int) -> Reason | None:
        """How close a tool is."""
        one = np.array([slot], np.int32)
        if not self.vectors.present[slot]:
            return None
        return Reason(self.arm, score=round(float(self.similarity(one)[0]), 3))

    def _standard(self, view: Floats, slots: Ints) -> Floats:
        mean, deviation = self.vectors.spread(view)
        return (self.vectors.similarity(view, slots) - np.float32(mean)) / np.float32(deviation)
