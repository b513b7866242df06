"""pydantic-ai: the local search tool of its ToolSearch capability, over deferred tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from pydantic_ai import ExternalToolset, RunContext, ToolDefinition
from pydantic_ai.capabilities import ToolSearch
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage


class Peer:
    def __init__(self, rows: Iterable[dict[str, Any]], *, limit: int) -> None:
        self._definitions = [self._definition(row) for row in rows]
        self._limit = limit
        self._loop = asyncio.Runner()
        self._context: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage())

    def index(self) -> None:
        wrapped = ExternalToolset(self._definitions)
        self._toolset: Any = ToolSearch(max_results=self._limit).get_wrapper_toolset(wrapped)
        tools = self._loop.run(self._toolset.get_tools(self._context))
        self._tool = tools["search_tools"]
        self.search("index")

    def search(self, query: str) -> list[str]:
        call = self._toolset.call_tool(
            "search_tools", {"queries": [query]}, self._context, self._tool
        )
        try:
            found = self._loop.run(call)
        except ModelRetry:  # no word of the query is one it reads: the model is told to ask anew
            return []
        return [match["name"] for match in found["discovered_tools"]]

    def add(self, row: dict[str, Any]) -> None:
        self._definitions.append(self._definition(row))
        self.index()  # as every step of an agent does

    def remove(self, name: str) -> None:
        self._definitions = [d for d in self._definitions if d.name != name]
        self.index()

    @staticmethod
    def _definition(row: dict[str, Any]) -> ToolDefinition:
        return ToolDefinition(
            name=row["name"],
            description=row["description"],
            parameters_json_schema=row["parameters"],
            defer_loading=True,
        )
