"""Telling clients that their list of tools is not what it was."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any
from weakref import ReferenceType, ref

import anyio
import mcp_types as types
from fastmcp.server.server import FastMCP
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

from ..lru import LRUCache
from .sessions import Principal

_MOST = 1_000


class ToolListNotifier:
    """Reaches clients of the handshake generation one by one, and stateless ones that listen."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._clients: LRUCache[str, tuple[Principal, ReferenceType[Connection]]] = LRUCache(_MOST)

    def register(self, app: FastMCP[Any]) -> None:
        """Let stateless clients listen."""
        server = app._mcp_server  # pyright: ignore[reportPrivateUsage] -- FastMCP does not serve this request itself
        server.add_request_handler(
            "subscriptions/listen",
            types.SubscriptionsListenRequestParams,
            ListenHandler(self._bus),
        )

    def remember_client(self, caller: Principal, session: ServerSession) -> None:
        """Remember how to reach a client, for as long as it is connected."""
        # A session holds all of the request it came with; only the connection lasts.
        connection = session._connection  # pyright: ignore[reportPrivateUsage] -- there is no other way to it
        self._clients.put(caller.session, (caller, ref(connection)))

    async def notify(self, key: str) -> None:
        """Tell one client, and whoever listens, to list its tools again."""
        await self._bus.publish(ToolsListChanged())
        known = self._clients.get(key)
        connection = known[1]() if known else None
        if connection is None:
            return
        # A client that has gone needs no telling.
        gone = (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError)
        with contextlib.suppress(*gone, asyncio.TimeoutError):
            await connection.send_tool_list_changed()

    async def notify_all(self) -> None:
        """Tell every client that can be reached."""
        for caller in self.reachable_clients():
            await self.notify(caller.session)

    def reachable_clients(self) -> tuple[Principal, ...]:
        """The clients that can be reached."""
        return tuple(caller for caller, connection in self._clients.values() if connection())
