"""One MCP server as a source of tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types
from mcp import MCPError

from ....errors import SourceError
from ...result import Result
from ...tool import Tool
from . import wire
from .connection import Connection, Relay
from .servers import Server


class MCPSource:
    """Lists and runs the tools of one server; connects when first needed."""

    def __init__(self, server: Server) -> None:
        self.name = server.name
        self._server = server
        self._connection: Connection | None = None
        self._names: dict[str, str] = {}

    async def tools(self) -> Sequence[Tool]:
        """All tools the server lists, page by page."""
        session = await self._session()
        found: list[Tool] = []
        cursor: str | None = None
        while True:
            page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            for tool, local in wire.tools_of(self.name, page.tools):
                self._names[tool.name] = local
                found.append(tool)
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Run one tool on the server."""
        session = await self._session()
        name = self._names.get(tool.name, tool.local_name)
        try:
            reply = await session.call_tool(name, dict(arguments))
        except MCPError as error:
            raise SourceError(f"Server {self.name!r} failed on {name!r}: {error}.") from error
        return wire.result_of(reply)

    async def close(self) -> None:
        """Stop the server, if it runs."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _session(self) -> Relay:
        if self._connection is None:
            self._connection = Connection(self._server)
        try:
            return await self._connection.session()
        except Exception as error:
            self._connection = None
            raise SourceError(
                f"Cannot reach MCP server {self.name!r}: {error}.",
                hint="Check its command or url in the configuration.",
            ) from error
