"""Where tools come from, and who runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .result import Result
from .tool import Tool


class Source(Protocol):
    """A place that lists tools and runs them. `tool.local_name` is the name it knows."""

    name: str

    async def tools(self) -> Sequence[Tool]:
        """All tools that this place has now."""
        ...

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Run one of them; a tool's own failure is a result, a broken source raises SourceError."""
        ...

    async def close(self) -> None:
        """Let go of processes and connections."""
        ...
