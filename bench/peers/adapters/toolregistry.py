"""toolregistry: the discovery tool of its registry, which has the tools deferred."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from toolregistry import ToolRegistry
from toolregistry.tool import Tool

logging.disable(logging.WARNING)  # it warns of every query without a hit


def _nothing() -> str:
    return ""


class Peer:
    def __init__(self, rows: Iterable[dict[str, Any]], *, limit: int) -> None:
        self._limit = limit
        self._pattern = Tool.from_function(_nothing, name="pattern", description="pattern")
        self._registry = ToolRegistry()
        for row in rows:
            self._registry.register(self._tool(row))

    def index(self) -> None:
        self._discovery = self._registry.enable_tool_discovery()

    def search(self, query: str) -> list[str]:
        return [hit["name"] for hit in self._discovery.discover(query, top_k=self._limit)]

    def add(self, row: dict[str, Any]) -> None:
        self._registry.register(self._tool(row))

    def remove(self, name: str) -> None:
        self._registry.disable(name)

    def _tool(self, row: dict[str, Any]) -> Tool:
        return replace(
            self._pattern,
            name=row["name"],
            description=row["description"],
            parameters=row["parameters"],
        )
