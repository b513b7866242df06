"""ratel-ai: lexical search of its tool catalog, which is written in Rust."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from ratel_ai import ExecutableTool, ToolCatalog


class Peer:
    def __init__(self, rows: Iterable[dict[str, Any]], *, limit: int) -> None:
        self._limit = limit
        self._tools = [self._tool(row) for row in rows]
        self._catalog = ToolCatalog()
        self._loop = asyncio.Runner()

    def index(self) -> None:
        self._loop.run(self._register(self._tools))
        self.search("index")

    def search(self, query: str) -> list[str]:
        return [hit.tool_id for hit in self._catalog.search(query, self._limit)]

    def add(self, row: dict[str, Any]) -> None:
        self._loop.run(self._register([self._tool(row)]))

    def remove(self, name: str) -> None:
        raise NotImplementedError(f"{name}: ToolCatalog has no way to remove a tool")

    async def _register(self, tools: list[ExecutableTool]) -> None:
        await self._catalog.register(tools)

    @staticmethod
    def _tool(row: dict[str, Any]) -> ExecutableTool:
        return ExecutableTool(
            id=row["name"],
            name=row["name"],
            description=row["description"],
            input_schema=row["parameters"],
            output_schema={},
            execute=dict,
        )
