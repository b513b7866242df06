"""FastMCP: the search step of its BM25 transform, over ready tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.base import Tool, ToolResult


class _Tool(Tool):
    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(content=str(arguments))


class _Search(BM25SearchTransform):
    """The transform with its documented hook in reach."""

    async def find(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        return await self._search(tools, query)


class Peer:
    def __init__(self, rows: Iterable[dict[str, Any]], *, limit: int) -> None:
        self._tools = [self._tool(row) for row in rows]
        self._transform = _Search(max_results=limit)
        self._loop = asyncio.Runner()

    def index(self) -> None:
        self.search("index")  # it builds when it is first asked

    def search(self, query: str) -> list[str]:
        return [t.name for t in self._loop.run(self._transform.find(self._tools, query))]

    def add(self, row: dict[str, Any]) -> None:
        self._tools = [*self._tools, self._tool(row)]

    def remove(self, name: str) -> None:
        self._tools = [t for t in self._tools if t.name != name]

    @staticmethod
    def _tool(row: dict[str, Any]) -> Tool:
        return _Tool(name=row["name"], description=row["description"], parameters=row["parameters"])
