"""Rank held tools together with what a search found, to see which of them it would have found."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from threading import Lock

from ...catalog.catalog import Catalog
from ...catalog.tool import Tool
from ...disclosure.doubt import is_far
from ...disclosure.noise import drop_noise
from ...embedders.cache import VectorCache
from ...errors import ToolscoutError
from ...search.engine import Engine
from ...search.hit import Results
from ...search.rankers.bm25f import BM25F
from ...search.rankers.dense import Dense
from ...search.rankers.exact import Exact

# A held tool is mentioned if it is the best, or at least this much as good as the best.
_MIN_SHARE = 0.5
_MAX_FOUND = 10
_MAX_COMPARED = 5


class HeldRanker:
    """Ranks a few tools for a query; vectors are used if the gateway's own search has them."""

    # The confidence of a search over held tools alone says little: among one or two tools every
    # score is about average. Beside the tools that were found it is clear which fits better.

    def __init__(self, engine: Engine, *, vectors: Path | None = None) -> None:
        self._main = engine
        self._vectors = vectors
        self._engine: Engine | None = None
        self._lock = Lock()

    def select(self, query: str, held: Sequence[Tool], found: Sequence[Tool]) -> tuple[Tool, ...]:
        """The held tools that fit a query about as well as the best of all these tools."""
        names = {tool.name for tool in held}
        others = [tool for tool in found if tool.name not in names][:_MAX_FOUND]
        catalog = Catalog(others, source="found").with_source("held", held)
        try:
            with self._lock:
                return self._select(query, catalog, names)
        except ToolscoutError:  # a malformed query; the search itself reports it
            return ()

    def _select(self, query: str, catalog: Catalog, held: Collection[str]) -> tuple[Tool, ...]:
        engine = self._engine_for(catalog)
        hits = drop_noise(engine.search(query, limit=len(catalog)), engine).hits
        least = max((hit.score for hit in hits), default=0.0) * _MIN_SHARE
        chosen = {h.name for i, h in enumerate(hits) if not i or h.score >= least > 0}
        candidates = [hit for hit in hits if hit.name in held]
        # Between a few tools a score only says which is better. A similarity also says how near.
        best = _similarity(engine, query, [name for name in catalog.tools if name not in held])
        chosen |= {
            hit.name
            for hit in candidates[:_MAX_COMPARED]
            if hit.name not in chosen and _similarity(engine, query, [hit.name]) >= best > 0
        }
        return tuple(
            hit.tool
            for hit in candidates
            if hit.name in chosen and not is_far(_search_one(engine, query, hit.name))
        )

    def close(self) -> None:
        """Release the vectors."""
        with self._lock:
            if self._engine is not None:
                self._engine.close()

    def _engine_for(self, catalog: Catalog) -> Engine:
        if not self._main.status.is_complete:
            return Engine(catalog)
        engine = self._engine = self._engine or self._build_engine()
        engine.update(catalog)
        engine.fill()
        return engine

    def _build_engine(self) -> Engine:
        embedders = self._main.embedders
        # Vectors of these tools are in the cache: they were computed when each was searchable.
        cache = VectorCache(self._vectors) if self._vectors else None
        rankers = (Exact(), BM25F(), *map(Dense, embedders))
        return Engine(embedders=embedders, cache=cache, rankers=rankers)


def _search_one(engine: Engine, query: str, name: str) -> Results:
    return engine.search(query, limit=1, allow=frozenset((name,)))


def _similarity(engine: Engine, query: str, names: Sequence[str]) -> float:
    """How near in meaning the best of some tools is to a query; 0 without vectors."""
    evidence = engine.search(query, limit=1, allow=frozenset(names), arms="vectors").evidence
    return (evidence.similarity or 0.0) if evidence else 0.0
