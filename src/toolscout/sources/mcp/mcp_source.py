"""An MCP server as a source of tools: started on first use, stopped when idle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import mcp_types as types
from mcp import MCPError

from ...catalog.questions import pause_while_asking
from ...catalog.result import Result
from ...catalog.tool import Tool
from ...errors import SourceError
from ...events import Sink, ignore
from . import server_calls, wire
from .call_slot import CallSlot
from .connection import Connection
from .dispatcher import SessionExpiredError
from .listing import Listing, ServerTools, fetch_listing
from .listing_cache import ListingCache
from .oauth_tokens import OAuthTokenStore
from .server_calls import ConnectionLostError, ServerCall
from .server_log import ServerLog
from .servers import Server
from .supervisor import ConnectionStatus, ConnectionSupervisor

# After so many calls in a row without an answer, the connection is taken for dead and replaced.
_MAX_TIMEOUTS = 3
_Reply = TypeVar("_Reply", bound=types.Result)
_UNKNOWN_EFFECT_HINT = "It may or may not have taken effect: check before calling again."


class ToolChangedError(SourceError):
    """The server changed or removed a tool after the caller has read its definition."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """The current state of a server, for people and for health checks."""

    server: str
    status: ConnectionStatus
    reason: str = ""
    tools: int = 0
    prompts: int = 0
    resources: int = 0
    protocol: str = ""
    is_listed: bool = False
    in_flight: int = 0
    failures: int = 0
    failing_seconds: float = 0.0
    retry_seconds: float = 0.0
    problems: tuple[str, ...] = ()


class MCPSource:
    """Lists and runs the tools of one server.

    Its last listing is known at once from the cache `listings`. The server itself starts when it
    is first needed. `on_change` is called whenever it lists something different. With
    `forwards_requests` the server may ask the client of a call for more than an elicitation.
    """

    def __init__(
        self,
        server: Server,
        *,
        listings: ListingCache | None = None,
        grants: OAuthTokenStore | None = None,
        on_change: Callable[[MCPSource], None] | None = None,
        sink: Sink = ignore,
        forwards_requests: bool = False,
        server_log: ServerLog | None = None,
        reads_cache: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = server.name
        self.server = server
        self._listings = listings
        self._on_change = on_change
        self._clock = clock
        self._slots = asyncio.Semaphore(max(1, server.limits.concurrency))
        self._question_lock = asyncio.Lock()
        self._timeouts = 0
        self._subscriptions: dict[str, Callable[[str], None]] = {}
        self._listing_lock = asyncio.Lock()
        self._cache_key = server.listing_key(forwards_requests=forwards_requests)
        cache = listings if reads_cache else None
        listing = cache.load(server.name, self._cache_key) if cache else None
        self._server_tools = ServerTools.of(server, listing)
        self._supervisor = ConnectionSupervisor(
            server,
            on_listing_due=self._update_listing,
            clock=clock,
            sink=sink,
            forwards_requests=forwards_requests,
            grants=grants,
            last_protocol=listing.protocol if listing else "",
            server_log=server_log,
        )

    @property
    def listing(self) -> Listing | None:
        """What the server last listed; None if it has never been listed."""
        return self._server_tools.listing

    @property
    def spellings(self) -> Mapping[str, str]:
        """Full names of its tools by their normalised spelling."""
        return self._server_tools.spellings

    @property
    def definitions(self) -> Mapping[str, wire.MCPToolDefinition]:
        """Its tools with their whole definitions, keyed by the server's own names."""
        return self._server_tools.definitions

    @property
    def state(self) -> ServerState:
        """The current state of the server."""
        tools, breaker, now = self._server_tools, self._supervisor.breaker, self._clock()
        listing = tools.listing or Listing()
        return ServerState(
            server=self.name,
            status=self._supervisor.status,
            reason=self.server.problem or breaker.reason,
            tools=len(tools.definitions),
            prompts=len(listing.prompts),
            resources=len(listing.resources) + len(listing.templates),
            protocol=listing.protocol,
            is_listed=tools.listing is not None,
            in_flight=self._supervisor.in_flight,
            failures=breaker.failures,
            failing_seconds=round(now - breaker.failing_since, 1) if breaker.failures else 0.0,
            retry_seconds=round(breaker.wait_seconds(now=now), 1),
            problems=tools.problems,
        )

    async def tools(self) -> Sequence[Tool]:
        """Its tools as last known; a server that was never listed is connected first."""
        if self.server.is_disabled:
            return ()
        if self.listing is None:
            await self._supervisor.ensure_connection()
        return tuple(d.tool for d in self.definitions.values())

    async def refresh(self) -> None:
        """Connect to the server if it is down, which lists its tools."""
        await self._supervisor.ensure_connection()

    async def start(self, *, timeout_seconds: float) -> None:
        """Start the server; a slow one continues to start in the background."""
        with suppress(SourceError, TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._supervisor.ensure_connection()

    def wake(self) -> None:
        """Start the server in the background if it is down and its back-off is over."""
        self._supervisor.wake()

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Run one tool, provided that its definition is still the one the caller knows."""
        name, digest = wire.tool_origin(tool)
        hints = tool.annotations
        is_repeatable = bool(hints and (hints.read_only or hints.idempotent))
        call = ServerCall("tool", name, arguments, is_repeatable=is_repeatable)
        return await self._run_call(call, digest=digest)

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Result:
        """Get a prompt of the server with its arguments filled in."""
        return await self._run_call(ServerCall("prompt", name, arguments, is_repeatable=True))

    async def read_resource(self, uri: str) -> Result:
        """Read a resource of the server."""
        return await self._run_call(ServerCall("resource", uri, {}, is_repeatable=True))

    async def complete(self, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Completions for an argument of a prompt or a resource template."""
        request = types.CompleteRequest(params=params)
        return await self._send_request(request, types.CompleteResult, params.argument.name)

    async def subscribe(self, uri: str, on_update: Callable[[str], None]) -> None:
        """Subscribe to a resource until `unsubscribe`, across restarts of the server."""
        await self._send_request(_subscribe_request(uri), types.EmptyResult, uri)
        self._subscriptions[uri] = on_update
        self._supervisor.has_subscriptions = True

    async def unsubscribe(self, uri: str) -> None:
        """End a subscription; a server that is down has lost it anyway."""
        self._subscriptions.pop(uri, None)
        self._supervisor.has_subscriptions = bool(self._subscriptions)
        if self._supervisor.status == "ready":
            request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
            await self._send_request(request, types.EmptyResult, uri)

    async def _send_request(
        self, request: types.ClientRequest, reply_type: type[_Reply], name: str
    ) -> _Reply:
        """Send a request; if its session has expired, send it again in a new one."""
        with suppress(SessionExpiredError):
            return await self._send_request_once(request, reply_type, name)
        return await self._send_request_once(request, reply_type, name)

    async def _send_request_once(
        self, request: types.ClientRequest, reply_type: type[_Reply], name: str
    ) -> _Reply:
        async with (
            self._acquire_connection() as connection,
            server_calls.enforce_call_timeout(self.server, name),
        ):
            try:
                return await connection.session.send_request(request, reply_type)
            except SessionExpiredError:
                self._supervisor.discard_connection(connection)
                raise

    async def close(self, *, drain_seconds: float = 0.0) -> None:
        """Stop the server; calls that are running get `drain_seconds` to finish."""
        acquired = await self._drain(drain_seconds)
        await self._supervisor.close()
        # Released only now: calls that waited for a slot fail with "closed" instead of hanging.
        for _ in range(acquired):
            self._slots.release()

    async def _drain(self, timeout_seconds: float) -> int:
        """Acquire the slots of running calls as they finish; how many it got in time."""
        acquired = 0
        if timeout_seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    while acquired < max(1, self.server.limits.concurrency):
                        await self._slots.acquire()
                        acquired += 1
        return acquired

    async def _run_call(self, call: ServerCall, *, digest: str = "") -> Result:
        """Send a call; once more if the connection was lost and repeating it is safe."""
        try:
            return await self._run_call_once(call, digest)
        except ConnectionLostError as lost:
            if lost.may_have_run and not call.is_repeatable:
                raise self._connection_lost_error(call, lost) from lost
        try:
            return await self._run_call_once(call, digest)
        except ConnectionLostError as lost:
            raise self._connection_lost_error(call, lost) from lost

    def _connection_lost_error(self, call: ServerCall, lost: ConnectionLostError) -> SourceError:
        if not lost.may_have_run:
            return SourceError(
                f"Server {self.name!r} was lost before {call.name!r} could run.",
                hint="It has not run: try again later.",
            )
        hint = "It may be called again." if call.is_repeatable else _UNKNOWN_EFFECT_HINT
        return SourceError(f"Server {self.name!r} ended while {call.name!r} ran.", hint=hint)

    async def _run_call_once(self, call: ServerCall, digest: str) -> Result:
        async with self._acquire_connection() as connection:
            if digest:
                self._require_unchanged(call.name, digest)
            try:
                result = await server_calls.run_call(connection, self.server, call)
            except server_calls.CallTimeoutError:
                self._timeouts += 1
                if self._timeouts >= _MAX_TIMEOUTS:
                    self._timeouts = 0
                    self._supervisor.discard_connection(connection)
                raise
            except ConnectionLostError as lost:
                # The session expired. A connection that broke ends by itself.
                if not lost.may_have_run:
                    self._supervisor.discard_connection(connection)
                raise
            finally:
                connection.calls_served += 1
        self._timeouts = 0
        return result

    def _require_unchanged(self, name: str, digest: str) -> None:
        # The model chose and filled in the tool by its old definition: it has to look again.
        current = self.definitions.get(name)
        if current is None or current.digest != digest:
            change = "changed" if current else "removed"
            raise ToolChangedError(
                f"Server {self.name!r} has {change} {name!r}.", hint="Search again."
            )

    @asynccontextmanager
    async def _acquire_connection(self) -> AsyncGenerator[Connection]:
        """A live connection, once fewer calls run on it than its limit."""
        async with AsyncExitStack() as stack:
            await self._take_slot(stack, self._slots)
            connection = await self._supervisor.ensure_connection()
            if self.server.transport == "stdio":
                # On a pipe, a question does not say which call it belongs to. So once a server has
                # asked something, its calls run one at a time, except while they wait for a user.
                await self._take_slot(stack, self._question_lock, is_needed=connection.has_asked)
                # The connection may have ended while this call waited.
                connection = await self._supervisor.ensure_connection()
            self._supervisor.in_flight += 1
            try:
                with connection.mark_busy():
                    yield connection
            finally:
                self._supervisor.in_flight -= 1
                self._supervisor.touch()

    async def _take_slot(
        self,
        stack: AsyncExitStack,
        lock: asyncio.Semaphore | asyncio.Lock,
        *,
        is_needed: bool = True,
    ) -> None:
        """Take a slot until the stack closes; if it is not needed yet, after the first question."""
        slot = CallSlot(lock)
        stack.callback(slot.leave)
        try:
            async with asyncio.timeout(self.server.limits.call_timeout_seconds or None):
                if is_needed:
                    await slot.take()
        except TimeoutError as error:
            raise SourceError(
                f"Server {self.name!r} is busy with {self._supervisor.in_flight} other calls.",
                hint="Try again later.",
            ) from error
        stack.enter_context(pause_while_asking(slot.pause))

    async def _update_listing(self, connection: Connection) -> None:
        async with asyncio.timeout(self.server.limits.connect_timeout_seconds):
            listing = await fetch_listing(connection.session, connection.dispatcher)
        if connection.on_resource_update is None:
            connection.on_resource_update = self._notify_update
            await self._resubscribe(connection)
        async with self._listing_lock:
            # In a thread: a long list takes seconds, in which other servers must stay responsive.
            tools = await asyncio.to_thread(self._index_if_new, listing)
            if tools is None:
                return
            # Without an await in between: nothing may call a tool of the new list before
            # `on_change` has judged it (pins, shadowing).
            self._server_tools = tools
            if self._on_change is not None:
                self._on_change(self)

    async def _resubscribe(self, connection: Connection) -> None:
        """Renew all subscriptions after a restart of the server; failures are ignored."""
        uris = tuple(self._subscriptions)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.server.limits.connect_timeout_seconds):
                for uri in uris:
                    with suppress(MCPError, ValueError):
                        await connection.session.send_request(
                            _subscribe_request(uri), types.EmptyResult
                        )
        # Updates while the server was down were not announced: report each resource once.
        for uri in uris:
            self._notify_update(uri)

    def _notify_update(self, uri: str) -> None:
        if uri in self._subscriptions:
            self._subscriptions[uri](uri)

    def _index_if_new(self, listing: Listing) -> ServerTools | None:
        """Define the tools of a listing and cache it; None if it is the one already known."""
        if listing == self._server_tools.listing:
            return None
        tools = ServerTools.of(self.server, listing)
        if self._listings is not None:
            self._listings.save(self.name, self._cache_key, listing)
        return tools


def _subscribe_request(uri: str) -> types.SubscribeRequest:
    return types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
