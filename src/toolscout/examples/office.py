"""The example catalog as a source whose tools can be called; they only say what they would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..catalog.result import Result
from ..catalog.sanitization import compact_json
from ..catalog.tool import Tool
from ..sources.files import read_tools
from . import CATALOG


class OfficeSource:
    """The tools of the example catalog."""

    name = "office"

    def __init__(self) -> None:
        self._tools = read_tools(CATALOG).tools

    async def tools(self) -> Sequence[Tool]:
        """All tools of the catalog."""
        return self._tools

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Repeat the call: an invented office has no mail to send and no data to read."""
        text = f"Example only: {tool.local_name} was called with {compact_json(dict(arguments))}."
        return Result.of(text)

    async def close(self) -> None:
        """Nothing is open."""
