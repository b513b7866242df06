"""The gateway's own MCP server: three tools before all the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, cast

import jsonschema
from fastmcp import FastMCP
from fastmcp.tools import ToolResult
from mcp_types import TextContent
from pydantic import Field

from ..catalog.catalog import Catalog
from ..catalog.result import Result
from ..catalog.schema import Schema
from ..catalog.source import Source
from ..errors import SourceError
from ..search.engine import Engine


class Gateway:
    """Many sources behind one search, one description and one call."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = {s.name: s for s in sources}
        self._engine = Engine()
        self.problems: dict[str, str] = {}

    async def start(self) -> None:
        """List the tools of every source; one that fails is noted and the rest go on."""
        await asyncio.gather(*(self._list(s) for s in self._sources.values()))

    async def _list(self, source: Source) -> None:
        try:
            tools = await source.tools()
        except SourceError as error:
            self.problems[source.name] = str(error)
            return
        self._engine.update(self.catalog.with_source(source.name, tools))

    async def close(self) -> None:
        """Let go of every source."""
        await asyncio.gather(*(s.close() for s in self._sources.values()))

    @property
    def catalog(self) -> Catalog:
        """All tools known now."""
        return self._engine.catalog

    def search(self, query: str | list[str], limit: int) -> str:
        """The best tools for a query, as text for a model."""
        results = self._engine.search(query, limit=limit)
        lines = [f"{h.name}: {h.tool.description}" for h in results.hits]
        return "\n".join(lines) or f"No tool fits {query!r}. Nearest: {', '.join(results.near)}"

    def describe(self, names: Sequence[str]) -> str:
        """The full definitions of tools, or what to do about an unknown name."""
        return "\n".join(self._describe(name) for name in names)

    def _describe(self, name: str) -> str:
        found = self.catalog.resolve(name)
        if not found:
            return self._unknown(name)
        return "\n".join(json.dumps(self.catalog[n].row(), ensure_ascii=False) for n in found)

    def _unknown(self, name: str) -> str:
        near = self._engine.search(name.replace("_", " "), limit=3).names
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        return f"There is no tool named {name!r}.{hint} Use tool_search to find tools."

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Result:
        """Run the tool of that name, once its arguments fit."""
        tool = self.catalog.get(name)
        if tool is None:
            return Result.error(self._unknown(name))
        said = _misfits(tool.parameters, arguments)
        if said:
            return Result.error(
                f"The arguments do not fit {name}: {said}. Its schema: {tool.parameters.text}"
            )
        try:
            return await self._sources[tool.server].call(tool, arguments)
        except SourceError as error:
            return Result.error(str(error))


def _misfits(schema: Schema, arguments: Mapping[str, Any]) -> str:
    validator = jsonschema.Draft202012Validator(schema.value)
    errors = cast("Iterator[jsonschema.ValidationError]", validator.iter_errors(arguments))  # pyright: ignore[reportUnknownMemberType] -- the stub leaves one overload untyped
    return "; ".join(e.message for e in errors)


def serve(gateway: Gateway) -> FastMCP[Any]:
    """The gateway as an MCP server."""

    @asynccontextmanager
    async def lifespan(_: FastMCP[Any]) -> AsyncGenerator[None]:
        await gateway.start()
        try:
            yield
        finally:
            await gateway.close()

    app = FastMCP[Any]("toolscout", lifespan=lifespan)

    @app.tool(output_schema=None)
    def tool_search(query: str | list[str], limit: Annotated[int, Field(ge=1, le=50)] = 5) -> str:
        """Find tools by what you need done; ask several short queries at once if you like."""
        return gateway.search(query, limit)

    @app.tool(output_schema=None)
    def describe_tools(names: list[str]) -> str:
        """The full definitions of tools, with their parameters."""
        return gateway.describe(names)

    @app.tool(output_schema=None)
    async def call_tool(name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
        """Run a tool that a search found."""
        result = await gateway.call(name, arguments or {})
        return ToolResult(
            content=[TextContent(type="text", text=result.text)], is_error=result.is_error
        )

    return app
