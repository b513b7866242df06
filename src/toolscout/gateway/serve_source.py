"""Serve any source of tools, such as Python functions, as an MCP server."""

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
from ..sources.mcp.tool_metadata import write_tool_metadata
from .client.provider import ViewProvider


class SourceBackend:
    """Lists and runs the tools of a source, without search and sessions."""

    def __init__(self, source: Source) -> None:
        self._source = source

    async def list_tools(self, context: Context) -> Sequence[types.Tool]:  # noqa: ARG002 -- the contract's
        """All tools of the source."""
        return [render_definition(tool) for tool in await self._source.tools()]

    async def instructions(self, context: Context) -> str:  # noqa: ARG002 -- the contract's
        """No instructions: the descriptions of the tools are enough."""
        return ""

    def set_level(self, context: Context, level: types.LoggingLevel) -> None:
        """Nothing to set: functions send no log messages."""

    async def call(self, context: Context, name: str, arguments: dict[str, Any]) -> Result:  # noqa: ARG002 -- the contract's
        """Run a tool; a failure becomes an error result."""
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
        # Schemas are passed on as the source has them, `$ref` included.
        dereference_schemas=False,
    )


def render_definition(tool: Tool) -> types.Tool:
    """A tool as an MCP definition."""
    return types.Tool(
        name=tool.name,
        title=tool.title or None,
        description=tool.description,
        # MCP requires the type, which a schema without parameters may lack.
        input_schema={"type": "object", **tool.parameters.value},
        output_schema=tool.output.value if tool.output else None,
        annotations=_render_annotations(tool),
        _meta=write_tool_metadata(tool),
    )


def _render_annotations(tool: Tool) -> types.ToolAnnotations | None:
    # A function that declares only a risk gets the annotations that MCP clients know.
    annotations = tool.annotations or Annotations(
        read_only=True if tool.risk == "safe" else None,
        destructive=True if tool.risk == "destructive" else None,
    )
    if annotations == Annotations():
        return None
    return types.ToolAnnotations(
        read_only_hint=annotations.read_only,
        destructive_hint=annotations.destructive,
        idempotent_hint=annotations.idempotent,
        open_world_hint=annotations.open_world,
    )
