"""Any source of tools as an MCP server of its own: Python functions, for example."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import mcp_types as types
from fastmcp import FastMCP
from fastmcp.server.context import Context

from ..catalog.result import Result
from ..catalog.source import Source
from ..catalog.tool import Annotations, Tool
from ..errors import ToolscoutError
from .client.provider import ViewProvider


class SourceBackend:
    """Lists a source's tools and runs them; no search, no conversation."""

    def __init__(self, source: Source) -> None:
        self._source = source

    async def list_tools(self, context: Context) -> Sequence[types.Tool]:  # noqa: ARG002 -- the contract's
        """All tools of the source."""
        return [render_definition(tool) for tool in await self._source.tools()]

    async def instructions(self, context: Context) -> str:  # noqa: ARG002 -- the contract's
        """Nothing to say beyond the tools."""
        return ""

    def set_level(self, context: Context, level: types.LoggingLevel) -> None:
        """Functions do not log to their callers."""

    async def call(self, context: Context, name: str, arguments: dict[str, Any]) -> Result:  # noqa: ARG002 -- the contract's
        """Run one of them; a failure is told as a result."""
        tools = {tool.name: tool for tool in await self._source.tools()}
        if name not in tools:
            return Result.error(f"There is no tool {name!r}.", code="unknown_tool")
        try:
            return await self._source.call(tools[name], arguments)
        except ToolscoutError as error:
            return Result.error(str(error), code=error.code)


def build_source_server(source: Source) -> FastMCP[Any]:
    """An MCP server with the tools of a source."""
    return FastMCP[Any](
        source.name,
        version=version("toolscout"),
        providers=[ViewProvider(SourceBackend(source))],
        dereference_schemas=False,
    )


def render_definition(tool: Tool) -> types.Tool:
    """A tool of ours as MCP defines one."""
    return types.Tool(
        name=tool.name,
        title=tool.title or None,
        description=tool.description,
        input_schema={"type": "object", **tool.parameters.value},
        output_schema=tool.output.value if tool.output else None,
        annotations=_render_annotations(tool),
    )


def _render_annotations(tool: Tool) -> types.ToolAnnotations | None:
    given = tool.annotations or Annotations(
        read_only=True if tool.risk == "safe" else None,
        destructive=True if tool.risk == "destructive" else None,
    )
    if given == Annotations():
        return None
    return types.ToolAnnotations(
        read_only_hint=given.read_only,
        destructive_hint=given.destructive,
        idempotent_hint=given.idempotent,
        open_world_hint=given.open_world,
    )
