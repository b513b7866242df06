"""The vectors of queries and their words, encoded once and kept for a while."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import Floats
from .embedder import Embedder, encode_texts

_CACHE_SIZE = 4_096


class QueryVectors:
    """Encodes queries with one embedder; texts that were encoded lately come from memory."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._rows: dict[str, Floats] = {}

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row per text; raises EmbedderError if the embedder fails."""
        # Without a lock: two threads may encode the same text, but none waits for another. A full
        # cache is replaced and not emptied, since another thread may be reading it.
        rows = self._rows
        if new := [text for text in dict.fromkeys(texts) if text not in rows]:
            if len(rows) + len(new) > _CACHE_SIZE:
                rows = self._rows = {text: rows[text] for text in texts if text in rows}
            rows.update(zip(new, encode_texts(self._embedder, new, are_queries=True), strict=True))
        return np.stack([rows[text] for text in texts])
