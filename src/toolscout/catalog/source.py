"""The contract of a tool source: list tools and run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .result import Result
from .tool import Tool


class Source(Protocol):
    """Lists tools and runs them; `tool.local_name` is the name that the source knows."""

    name: str

    async def tools(self) -> Sequence[Tool]:
        """All tools that the source has now."""
        ...

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Run a tool; its own failure is a result, a failing source raises SourceError."""
        ...

    async def close(self) -> None:
        """Close processes and connections."""
        ...
