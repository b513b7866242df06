"""Distance of two texts in meaning: 0 is the same, 1 is unrelated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolscout.embedders.universal_encoder import UniversalEncoder

# Loads its weights on first use, and is shared by all sites.
_ENCODER = UniversalEncoder()


class TextSimilarity:
    """The bundled multilingual encoder with a cache of vectors."""

    def __init__(self) -> None:
        self._vectors: dict[str, np.ndarray] = {}

    def distances(self, query: str, texts: Sequence[str]) -> list[float]:
        """The distance of each text to the query."""
        missing = [t for t in dict.fromkeys((query, *texts)) if t not in self._vectors]
        if missing:
            vectors = np.asarray(_ENCODER.encode(missing), np.float32)
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            # An empty text has a zero vector, which must not be divided by zero.
            self._vectors |= dict(zip(missing, vectors / np.maximum(norms, 1e-9), strict=True))
        vector = self._vectors[query]
        return [round(float(max(0.0, 1.0 - vector @ self._vectors[t])), 3) for t in texts]
