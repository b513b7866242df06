"""Vectors for catalogs too large to encode in a benchmark: real ones, recombined.

A pool of texts is encoded for real and kept; the vector of any other text is a mixture of three of
them, chosen by the text. What is compared with them, the query, is always encoded for real, so a
search costs what it costs a user; only *what* it finds means nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from toolscout.embedders.arrays import Floats
from toolscout.embedders.universal_encoder import UniversalEncoder

POOL = 2_048
_SHARES = np.array([0.6, 0.3, 0.3], np.float32)


class Recombined:
    """The bundled encoder for queries, and mixtures of a pool of its vectors for tools."""

    dimensions = UniversalEncoder.dimensions
    is_latin_only = False
    translation_threshold = UniversalEncoder.translation_threshold

    def __init__(self, pool: str | Path) -> None:
        self._pool = Path(pool)
        self._encoder = UniversalEncoder()
        self.id = f"{self._encoder.id}, recombined from {self._pool.stem}"

    @cached_property
    def _vectors(self) -> Floats:
        return np.load(self._pool)

    def encode(self, texts: Sequence[str]) -> Floats:
        """Mixtures of length one, always the same for a text."""
        digests = [hashlib.blake2b(t.encode(errors="replace"), digest_size=12) for t in texts]
        drawn = np.frombuffer(b"".join(d.digest() for d in digests), np.uint32).reshape(-1, 3)
        mixed = np.einsum("s,tsd->td", _SHARES, self._vectors[drawn % len(self._vectors)])
        return mixed / np.linalg.norm(mixed, axis=1, keepdims=True)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Real vectors."""
        return self._encoder.encode(texts)


def pool(texts: Sequence[str], path: Path) -> Path:
    """Encode texts for real, once; their vectors stay in a file."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        encoder = UniversalEncoder()
        parts = [encoder.encode(texts[start : start + 64]) for start in range(0, len(texts), 64)]
        np.save(path, np.concatenate(parts))
    return path
