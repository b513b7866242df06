"""Toolscout itself, through the same door as its peers."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from toolscout import embedders
from toolscout.catalog.catalog import Catalog
from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool
from toolscout.embedders.cache import VectorCache
from toolscout.embedders.embedder import encode_texts
from toolscout.errors import QueryError
from toolscout.search.engine import Engine

sys.path.insert(0, str(Path(__file__).parents[3]))


class Peer:
    def __init__(
        self,
        rows: Iterable[dict[str, Any]],
        *,
        limit: int,
        embedder: str = "none",
        pool: str = "",
        cache: str = "",
    ) -> None:
        self._limit = limit
        self._cache = VectorCache(cache) if cache else None
        self._embedders: Any = embedders.load_embedders(embedder)
        if pool:
            from bench.vectors import Recombined

            self._embedders = (Recombined(pool),)
        for found in self._embedders:
            encode_texts(found, ["its weights are no part of the index"], are_queries=True)
        self._catalog = Catalog(self._tool(row) for row in rows)

    def index(self) -> None:
        self._engine = Engine(self._catalog, embedders=self._embedders, cache=self._cache)
        status = self._engine.fill()
        if status.problem:
            raise RuntimeError(status.problem)

    def search(self, query: str, *, allow: frozenset[str] | None = None) -> tuple[str, ...]:
        try:
            return self._engine.search(query, limit=self._limit, allow=allow).names
        except QueryError:  # it reads as a broken pattern, and finds nothing as for any user
            return ()

    def add(self, row: dict[str, Any]) -> None:
        self._catalog = self._catalog.add(self._tool(row))
        self._engine.update(self._catalog)

    def remove(self, name: str) -> None:
        self._catalog = self._catalog.remove(name)
        self._engine.update(self._catalog)

    def settle(self) -> None:
        self._engine.fill()

    @staticmethod
    def _tool(row: dict[str, Any]) -> Tool:
        return Tool(
            name=row["name"],
            description=row["description"],
            parameters=Schema.of(row["parameters"]),
            server=row.get("server", ""),
            category=row.get("category", ""),
        )
