"""Telling clients that their list of tools is not what it was."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import anyio
import mcp_types as types
from fastmcp.server.server import FastMCP
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

from .recent import Recent
from .sessions import Who

_MOST = 1_000


class Announcer:
    """Reaches clients of the handshake generation one by one, and stateless ones that listen."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._sessions: Recent[str, tuple[Who, ServerSession]] = Recent(_MOST)

    def register(self, app: FastMCP[Any]) -> None:
        """Let stateless clients listen."""
        server = app._mcp_server  # pyright: ignore[reportPrivateUsage] -- FastMCP does not serve this request itself
        server.add_request_handler(
            "subscriptions/listen",
            types.SubscriptionsListenRequestParams,
            ListenHandler(self._bus),
        )

    def know(self, caller: Who, session: ServerSession) -> None:
        """Remember how to reach a client."""
        self._sessions.put(caller.session, (caller, session))

    async def tell(self, key: str) -> None:
        """Tell one client, and whoever listens, to list its tools again."""
        await self._bus.publish(ToolsListChanged())
        known = self._sessions.get(key)
        if known is None:
            return
        # A client that has gone needs no telling.
        gone = (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError)
        with contextlib.suppress(*gone, asyncio.TimeoutError):
            await known[1].send_tool_list_changed()

    async def tell_all(self) -> None:
        """Tell every client that can be reached."""
        for caller in self.known():
            await self.tell(caller.session)

    def known(self) -> tuple[Who, ...]:
        """The clients that can be reached."""
        return tuple(caller for caller, _ in self._sessions.values())
