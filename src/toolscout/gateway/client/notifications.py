"""Notify clients that their list of tools has changed, and serve streams of `listen`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any
from weakref import ReferenceType, ref

import anyio
import mcp_types as types
from fastmcp.server.context import Context
from fastmcp.server.dependencies import bind_request_context
from fastmcp.server.server import FastMCP
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from ..fastmcp_compat import RequestContext, add_request_handler, get_connection
from ..identity.roles import Identity
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


ToolLister = Callable[[Identity], Awaitable[Sequence[types.Tool]]]
"""Returns the tools that a principal sees in a new session."""


class ListenStream:
    """The events for one open stream: those of its principal, and of the resources it watches."""

    def __init__(self, shared: InMemorySubscriptionBus) -> None:
        self._shared = shared
        self._own = InMemorySubscriptionBus()

    async def publish(self, event: ServerEvent) -> None:
        """Send an event to this stream alone."""
        await self._own.publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Let a listener have all events of the stream, until the function returned is called."""
        ends = (self._shared.subscribe(listener), self._own.subscribe(listener))

        def unsubscribe() -> None:
            for end in ends:
                end()

        return unsubscribe

    async def send_resource_updated(self, uri: str) -> None:
        """Announce that a resource has changed."""
        await self.publish(ResourceUpdated(uri))


ResourceWatch = Callable[
    [ListenStream, RequestContext, Sequence[str]], AbstractAsyncContextManager[Sequence[str]]
]
"""Subscribes a stream to resources while a block runs; yields the URIs that it is subscribed to."""


@dataclass(slots=True)
class _Audience:
    """The open streams of one principal, and the tools that they know of."""

    tools: Sequence[types.Tool]
    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    streams: int = 0


class ToolListNotifier:
    """Reaches handshake clients one by one, and stateless clients that listen, by principal.

    A change that a caller cannot see must not be announced to it, so every principal has a bus of
    its own.
    """

    def __init__(
        self,
        identify: Callable[[Context], Identity],
        list_tools: ToolLister,
        *,
        max_streams: Callable[[], int],
    ) -> None:
        self._identify = identify
        self._list_tools = list_tools
        self._max_streams = max_streams
        self._audiences: dict[Identity, _Audience] = {}
        # Weak, so that the notifier does not keep closed connections alive.
        self._clients: LRUCache[str, tuple[Principal, ReferenceType[Connection]]] = LRUCache(
            _MAX_CLIENTS
        )

    def register(self, app: FastMCP[Any], watch: ResourceWatch) -> None:
        """Let stateless clients listen for changes."""

        # FastMCP sets up its context only for requests that it handles itself.
        async def listen(request: RequestContext, params: Any) -> Any:
            with bind_request_context(request):
                async with Context(fastmcp=app, session=request.session) as context:
                    principal = self._identify(context)
            with self._open_stream(principal, await self._list_tools(principal)) as stream:
                return await _serve_stream(stream, request, params, watch)

        add_request_handler(
            app, "subscriptions/listen", types.SubscriptionsListenRequestParams, listen
        )

    @contextlib.contextmanager
    def _open_stream(
        self, principal: Identity, tools: Sequence[types.Tool]
    ) -> Generator[ListenStream]:
        # Over HTTP, the request was counted before it came here. Over stdio it was not.
        if sum(each.streams for each in self._audiences.values()) >= self._max_streams():
            raise MCPError(types.INTERNAL_ERROR, "Too many clients listen. Try again later.")
        audience = self._audiences.setdefault(principal, _Audience(tools))
        audience.streams += 1
        try:
            yield ListenStream(audience.bus)
        finally:
            audience.streams -= 1
            if not audience.streams:
                self._audiences.pop(principal, None)

    def remember_client(self, caller: Principal, session: ServerSession) -> None:
        """Remember how to reach a client for as long as it is connected."""
        self._clients.put(caller.session, (caller, ref(get_connection(session))))

    async def notify(self, session_key: str) -> None:
        """Ask the handshake client of a session to list the tools again."""
        known = self._clients.get(session_key)
        connection = known[1]() if known else None
        if connection is not None:
            with contextlib.suppress(*_DISCONNECTED):
                await connection.send_tool_list_changed()

    async def publish(self, principal: Identity) -> None:
        """Ask the clients of a principal that listen to list the tools again."""
        audience = self._audiences.get(principal)
        if audience is not None:
            await audience.bus.publish(ToolsListChanged())

    async def publish_to_all(self) -> None:
        """Ask all clients that listen to list the tools again."""
        for principal in list(self._audiences):
            await self.publish(principal)

    async def find_changed_listeners(self) -> list[Identity]:
        """The principals that listen and whose tools have changed; reports each change once."""
        changed: list[Identity] = []
        for principal, audience in list(self._audiences.items()):
            tools = await self._list_tools(principal)
            if tools != audience.tools:
                audience.tools = tools
                changed.append(principal)
        return changed

    def reachable_client(self, session_key: str) -> Principal | None:
        """The handshake client of a session, if it is still connected."""
        known = self._clients.get(session_key)
        return known[0] if known is not None and known[1]() else None

    def reachable_clients(self) -> tuple[Principal, ...]:
        """The clients that are still connected."""
        return tuple(caller for caller, connection in self._clients.values() if connection())


async def _serve_stream(
    stream: ListenStream,
    request: RequestContext,
    params: types.SubscriptionsListenRequestParams,
    watch: ResourceWatch,
) -> types.SubscriptionsListenResult:
    """Send the events of a stream to its client, for as long as the client listens."""
    asked = params.notifications
    async with watch(stream, request, asked.resource_subscriptions or ()) as uris:
        # The acknowledgement names only what the client gets: nothing that it may not read.
        heard = asked.model_copy(update={"resource_subscriptions": list(uris) or None})
        own = params.model_copy(update={"notifications": heard})
        return await ListenHandler(stream)(request, own)
