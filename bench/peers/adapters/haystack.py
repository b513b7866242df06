"""Haystack: the search tool of its SearchableToolset."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

from haystack.tools import SearchableToolset, Tool

_FOUND = re.compile(r"Found and loaded \d+ tool\(s\): (.*)\. Use them", re.DOTALL)


class Peer:
    def __init__(self, rows: Iterable[dict[str, Any]], *, limit: int) -> None:
        self._tools = [self._tool(row) for row in rows]
        self._limit = limit

    def index(self) -> None:
        toolset = SearchableToolset(self._tools, top_k=self._limit, search_threshold=1)
        toolset.warm_up()
        self._search = next(iter(toolset))
        self._toolset = toolset

    def search(self, query: str) -> list[str]:
        said = _FOUND.match(self._search.invoke(tool_keywords=query))
        return said[1].split(", ") if said else []

    def add(self, row: dict[str, Any]) -> None:
        self._toolset.add(self._tool(row))

    def remove(self, name: str) -> None:
        raise NotImplementedError(f"{name}: SearchableToolset has no way to remove a tool")

    @staticmethod
    def _tool(row: dict[str, Any]) -> Tool:
        given = {"name": row["name"], "description": row["description"], "function": dict}
        try:
            return Tool(parameters=row["parameters"], **given)
        except ValueError:  # it takes no invalid schema; its search reads none anyway
            return Tool(parameters={"type": "object", "properties": {}}, **given)
