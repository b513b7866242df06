"""Notify clients that their list of tools has changed."""

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

from ..fastmcp_compat import add_request_handler, get_connection
from .sessions import LRUCache, Principal

_MAX_CLIENTS = 1_000
# A client that has disconnected cannot be notified, and need not be.
_DISCONNECTED = (
    MCPError,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
    RuntimeError,
    asyncio.TimeoutError,
)


class ToolListNotifier:
    """Reaches handshake clients one by one, and stateless clients that listen through a bus."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        # Weak, so that the notifier does not keep closed connections alive.
        self._clients: LRUCache[str, tuple[Principal, ReferenceType[Connection]]] = LRUCache(
            _MAX_CLIENTS
        )

    def register(self, app: FastMCP[Any]) -> None:
        """Let stateless clients listen for changes."""
        add_request_handler(
            app,
            "subscriptions/listen",
            types.SubscriptionsListenRequestParams,
            ListenHandler(self._bus),
        )

    def remember_client(self, caller: Principal, session: ServerSession) -> None:
        """Remember how to reach a client for as long as it is connected."""
        self._clients.put(caller.session, (caller, ref(get_connection(session))))

    async def notify(self, session_key: str) -> None:
        """Ask the client of a session, and all clients that listen, to list the tools again."""
        # The bus has no addresses: a client that listens gets every change.
        await self._bus.publish(ToolsListChanged())
        known = self._clients.get(session_key)
        connection = known[1]() if known else None
        if connection is not None:
            with contextlib.suppress(*_DISCONNECTED):
                await connection.send_tool_list_changed()

    async def notify_all(self) -> None:
        """Notify every client that can be reached."""
        for caller in self.reachable_clients():
            await self.notify(caller.session)

    def reachable_clients(self) -> tuple[Principal, ...]:
        """The clients that are still connected."""
        return tuple(caller for caller, connection in self._clients.values() if connection())
