"""How far two texts are apart in meaning: 0 is the same, 1 is unrelated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolscout.search.embedders.universal_encoder import UniversalEncoder

# Its weights are loaded when it is first used, and once for all sites.
_ENCODER = UniversalEncoder()


class Meaning:
    """The bundled multilingual encoder, with every text encoded once."""

    def __init__(self) -> None:
        self._known: dict[str, np.ndarray] = {}

    def distances(self, query: str, texts: Sequence[str]) -> list[float]:
        wanted = [t for t in dict.fromkeys((query, *texts)) if t not in self._known]
        if wanted:
            vectors = np.asarray(_ENCODER.encode(wanted), np.float32)
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            self._known |= dict(zip(wanted, vectors / np.maximum(norms, 1e-9), strict=True))
        asked = self._known[query]
        return [round(float(max(0.0, 1.0 - asked @ self._known[t])), 3) for t in texts]
