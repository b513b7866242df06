"""One live session with a server, owned by one task from first byte to last."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

import mcp_types as types
from mcp import ClientSession, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from .servers import Server


class Relay(ClientSession):
    """A session that hands results on as they are: judging them is the caller's business."""

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Let every result pass."""


class Connection:
    """An open session; requests may come from any task, but one task alone opens and closes it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Relay] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(), name=f"upstream {server.name}")

    async def session(self) -> Relay:
        """The session, once it is open."""
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        """End the session and its process."""
        self._stop.set()
        with suppress(Exception):
            await self._task

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                session = await _open(self._server, stack)
                self._ready.set_result(session)
                await self._stop.wait()
        except Exception as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)


async def _open(server: Server, stack: AsyncExitStack) -> Relay:
    match server.transport:
        case "stdio":
            parameters = StdioServerParameters(
                command=server.command,
                args=list(server.args),
                env=dict(server.env),
                cwd=server.cwd or None,
            )
            streams = await stack.enter_async_context(stdio_client(parameters))
        case "http":
            client = create_mcp_http_client(headers=dict(server.headers))
            await stack.enter_async_context(client)
            streams = await stack.enter_async_context(
                streamable_http_client(server.url, http_client=client)
            )
        case "sse":
            streams = await stack.enter_async_context(
                sse_client(server.url, headers=dict(server.headers))
            )
    session = await stack.enter_async_context(Relay(*streams))
    try:
        await session.discover()
    except MCPError:
        await session.initialize()
    return session
