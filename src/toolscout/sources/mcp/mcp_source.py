"""An MCP server as a source of tools: started on first use, stopped when idle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import mcp_types as types
from mcp import MCPError

from ...catalog.principals import CURRENT_PRINCIPAL
from ...catalog.questions import pause_while_asking
from ...catalog.result import Result
from ...catalog.tool import Tool
from ...errors import SourceError
from ...events import Sink, ignore
from ...store.rate_limits import BucketStore, MemoryBuckets, RateLimit
from ..server_status import ServerStatus
from . import server_calls, wire
from .call_queue import ServerBusyError, ServerCallQueue
from .call_slot import CallSlot, CallSlots
from .connection import Connection
from .dispatcher import SessionExpiredError
from .listing import Listing, ServerTools, fetch_listing
from .listing_cache import ListingCache
from .login_request import LoginLink, LoginRequests
from .oauth_tokens import OAuthTokenStore
from .principal_connections import PrincipalConnection, PrincipalConnections
from .server_backoff import ServerBackoff
from .server_calls import ConnectionLostError, ServerCall
from .server_log import ServerLog
from .servers import Server
from .supervisor import ConnectionSupervisor

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
    status: ServerStatus
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


class ListingWatch(Protocol):
    """Learns when each listing began, to know what it is newer than."""

    async def begin_listing(self) -> object:
        """A mark for a listing that begins now."""
        ...

    def end_listing(self, mark: object) -> None:
        """The listing with this mark is in use now, perhaps the same as before."""
        ...


class MCPSource:
    """Lists and runs the tools of one server.

    Its last listing is known at once from the cache `listings`. The server itself starts when it
    is first needed. `on_change` is called whenever it lists something different. With
    `forwards_requests` the server may ask the client of a call for more than an elicitation.
    Without `is_met`, its first own list is reported like a change, even if it equals the cached.
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
        is_met: bool = True,
        buckets: BucketStore | None = None,
        login_link: LoginLink | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = server.name
        self.server = server
        self._listings = listings
        self._on_change = on_change
        self._clock = clock
        self._slots = CallSlots(max(1, server.limits.concurrency))
        self._question_lock = asyncio.Lock()
        self._watch: ListingWatch | None = None
        self._timeouts = 0
        self._subscriptions: dict[tuple[str, str], Callable[[str], None]] = {}
        self._listing_lock = asyncio.Lock()
        self._cache_key = server.listing_key(forwards_requests=forwards_requests)
        cache = listings if reads_cache else None
        listing = cache.load(server.name, self._cache_key) if cache else None
        self._server_tools = ServerTools.of(server, listing)
        self._is_provisional = listing is not None and not is_met

        def build_supervisor(entry: PrincipalConnection) -> ConnectionSupervisor:
            is_shared = entry is self._shared
            return ConnectionSupervisor(
                server,
                on_listing_due=partial(self._update_listing, entry),
                clock=clock,
                # What one principal cannot use is not a problem of the server.
                sink=sink if is_shared else ignore,
                forwards_requests=forwards_requests,
                grants=grants,
                principal=entry.principal,
                last_protocol=listing.protocol if listing else "",
                server_log=server_log if is_shared else None,
            )

        self._shared = PrincipalConnection("", self._server_tools)
        self._shared.supervisor = self._supervisor = build_supervisor(self._shared)
        self._logins = LoginRequests(server, grants=grants, link=login_link)
        self._principals = PrincipalConnections(server, build=build_supervisor, logins=self._logins)
        self._lister = ""
        self._queue = ServerCallQueue(
            server,
            rate=RateLimit(buckets or MemoryBuckets(), clock=clock),
            running=lambda: self._slots.taken,
        )

    @property
    def has_own_logins(self) -> bool:
        """Whether every principal uses a connection with a login of their own."""
        return self.server.oauth.is_per_principal

    @property
    def _in_flight(self) -> int:
        return self._supervisor.in_flight + self._principals.in_flight

    @property
    def listing(self) -> Listing | None:
        """What the server last listed; None if it has never been listed."""
        return self._server_tools.listing

    @property
    def is_provisional(self) -> bool:
        """Whether its tools are known from a cache only, and must not be trusted for that."""
        return self._is_provisional

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
        status, reason = self._supervisor.status, self.server.problem or breaker.reason
        # With a login for each principal, the shared one is needed only to list the tools.
        if self.has_own_logins and status == "needs login" and tools.listing is not None:
            status, reason, breaker = "idle", "", ServerBackoff()
        return ServerState(
            server=self.name,
            status=status,
            reason=reason,
            tools=len(tools.definitions),
            prompts=len(listing.prompts),
            resources=len(listing.resources) + len(listing.templates),
            protocol=listing.protocol,
            is_listed=tools.listing is not None,
            in_flight=self._in_flight,
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
            await self.refresh()
        return tuple(d.tool for d in self.definitions.values())

    async def refresh(self) -> None:
        """Connect to the server if it is down, which lists its tools."""
        if self.has_own_logins and not self._logins.has_login(""):
            if self._lister and self._logins.has_login(self._lister):
                await self._principals.list_with(self._lister)
                return
            if self.listing is not None:
                return  # only a caller has the login that the server needs
        await self._supervisor.ensure_connection()

    async def start(self, *, timeout_seconds: float) -> None:
        """Start the server; a slow one continues to start in the background."""
        with suppress(SourceError, TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self.refresh()

    def wake(self) -> None:
        """Start the server in the background if it is down and its back-off is over."""
        self.note_caller()
        if not self.has_own_logins or self._logins.has_login(""):
            self._supervisor.wake()
        principal = CURRENT_PRINCIPAL.get()
        if self.has_own_logins and self._logins.has_login(principal):
            self._principals.wake(principal)
        elif self.listing is None:
            self._supervisor.wake()

    def watch_listings(self, watch: ListingWatch) -> None:
        """Report each listing that is for everybody from now on."""
        self._watch = watch

    def relist(self) -> None:
        """List the tools again in the background; a server that is down is connected for that."""
        if self.has_own_logins and not self._logins.has_login(""):
            entry = self._principals.find(self._lister) if self._lister else None
            if entry is not None:
                entry.supervisor.relist()
            elif self._lister and self._logins.has_login(self._lister):
                self._principals.wake(self._lister)
            return
        self._supervisor.relist()

    def note_caller(self) -> None:
        """Let the current caller's login list the tools if there is no shared one."""
        principal = CURRENT_PRINCIPAL.get()
        if self.has_own_logins and self.listing is None and self._logins.has_login(principal):
            self._lister = principal

    def login_problem(self) -> str:
        """How the current caller can log in; empty if they need not, or have done so."""
        principal = CURRENT_PRINCIPAL.get()
        if not self.has_own_logins or self._logins.has_login(principal):
            return ""
        return str(self._logins.error(principal))

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Run one tool, provided that its definition is still the one the caller knows."""
        name, digest = wire.tool_origin(tool)
        hints = tool.annotations
        is_repeatable = bool(hints and (hints.read_only or hints.idempotent))
        call = ServerCall("tool", name, arguments, is_repeatable=is_repeatable)
        try:
            return await self._run_call(call, digest=digest)
        except ServerBusyError as error:
            return error.to_result()

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
        try:
            await self._send_request(_subscribe_request(uri), types.EmptyResult, uri)
        except MCPError as error:
            if error.code != types.METHOD_NOT_FOUND:
                raise
            # The gateway has the method, for the servers that can do it.
            text = f"Server {self.name!r} does not support subscriptions to resources."
            raise MCPError(types.METHOD_NOT_FOUND, text) from error
        self._subscriptions[self._connection_owner, uri] = on_update
        self._mark_subscriptions()

    async def unsubscribe(self, uri: str) -> None:
        """End a subscription; a server that is down has lost it anyway."""
        self._subscriptions.pop((self._connection_owner, uri), None)
        if self._mark_subscriptions() == "ready":
            request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
            await self._send_request(request, types.EmptyResult, uri)

    @property
    def _connection_owner(self) -> str:
        """Whose connection the current caller uses; empty for the shared one."""
        return CURRENT_PRINCIPAL.get() if self.has_own_logins else ""

    def _mark_subscriptions(self) -> ServerStatus:
        """Note whether the caller's connection has subscriptions; the status of it."""
        owner = self._connection_owner
        entry = self._principals.find(owner) if self.has_own_logins else self._shared
        if entry is None:
            return "idle"
        entry.supervisor.has_subscriptions = any(who == owner for who, _ in self._subscriptions)
        return entry.supervisor.status

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
            self._acquire_connection() as (entry, connection),
            server_calls.enforce_call_timeout(self.server, name),
        ):
            try:
                return await connection.session.send_request(request, reply_type)
            except SessionExpiredError:
                entry.supervisor.discard_connection(connection)
                raise

    async def close(self, *, drain_seconds: float = 0.0) -> None:
        """Stop the server; calls that are running get `drain_seconds` to finish."""
        acquired = await self._drain(drain_seconds)
        await self._supervisor.close()
        await self._principals.close()
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
            # A server that was stopped for what it sent would send it again.
            if (lost.may_have_run and not call.is_repeatable) or lost.reason:
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
        if lost.reason:
            text = f"Server {self.name!r} was stopped while {call.name!r} ran: {lost.reason}"
            return SourceError(text, hint=_UNKNOWN_EFFECT_HINT)
        hint = "It may be called again." if call.is_repeatable else _UNKNOWN_EFFECT_HINT
        return SourceError(f"Server {self.name!r} ended while {call.name!r} ran.", hint=hint)

    async def _run_call_once(self, call: ServerCall, digest: str) -> Result:
        async with self._acquire_connection() as (entry, connection):
            if digest:
                self._require_unchanged(entry, call.name, digest)
            try:
                result = await server_calls.run_call(connection, self.server, call)
            except server_calls.CallTimeoutError:
                self._timeouts += 1
                if self._timeouts >= _MAX_TIMEOUTS:
                    self._timeouts = 0
                    entry.supervisor.discard_connection(connection)
                raise
            except server_calls.UnauthorizedError as error:
                entry.supervisor.discard_connection(connection)
                if entry is self._shared:
                    raise
                raise self._logins.error(entry.principal) from error
            except ConnectionLostError as lost:
                # The session expired. A connection that broke ends by itself.
                if not lost.may_have_run:
                    entry.supervisor.discard_connection(connection)
                raise
            finally:
                connection.calls_served += 1
        self._timeouts = 0
        return result

    def _require_unchanged(self, entry: PrincipalConnection, name: str, digest: str) -> None:
        # The model chose and filled in the tool by its old definition: it has to look again.
        current = entry.definitions.get(name)
        if current is None or current.digest != digest:
            change = "changed" if current else "removed"
            raise ToolChangedError(
                f"Server {self.name!r} has {change} {name!r}.", hint="Search again."
            )

    @asynccontextmanager
    async def _acquire_connection(
        self,
    ) -> AsyncGenerator[tuple[PrincipalConnection, Connection]]:
        """A live connection of the caller, once fewer calls run on the server than its limit."""
        self._queue.count_call()
        async with AsyncExitStack() as stack:
            # Before a slot is taken: a caller who has to log in first must not hold up others.
            entry = self._shared
            if self.has_own_logins:
                acquiring = self._principals.acquire(CURRENT_PRINCIPAL.get())
                entry = await stack.enter_async_context(acquiring)
            await self._take_slot(stack, self._slots)
            connection = await self._open(entry)
            if self.server.transport == "stdio":
                # On a pipe, a question does not say which call it belongs to. So once a server has
                # asked something, its calls run one at a time, except while they wait for a user.
                await self._take_slot(stack, self._question_lock, is_needed=connection.has_asked)
                # The connection may have ended while this call waited.
                connection = await self._supervisor.ensure_connection()
            entry.supervisor.in_flight += 1
            try:
                with connection.mark_busy():
                    yield entry, connection
            finally:
                entry.supervisor.in_flight -= 1
                entry.supervisor.touch()

    async def _open(self, entry: PrincipalConnection) -> Connection:
        if entry is self._shared:
            return await self._supervisor.ensure_connection()
        return await self._principals.open(entry)

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
        if is_needed:
            await self._queue.wait_for(slot, lock)
        stack.enter_context(pause_while_asking(slot.pause))

    async def _update_listing(self, entry: PrincipalConnection, connection: Connection) -> None:
        mark = await self._watch.begin_listing() if self._watch else None
        async with asyncio.timeout(self.server.limits.connect_timeout_seconds):
            listing = await fetch_listing(connection.session, connection.dispatcher)
        if connection.on_resource_update is None:
            connection.on_resource_update = partial(self._notify_update, entry.principal)
            await self._resubscribe(entry.principal, connection)
        async with self._listing_lock:
            is_for_all = self._lists_for_all(entry)
            # In a thread: a long list takes seconds, in which other servers must stay responsive.
            tools = await asyncio.to_thread(
                self._index_if_new, listing, entry, is_for_all=is_for_all
            )
            # Without an await in between: nothing may call a tool of the new list before
            # `on_change` has judged it (pins, shadowing).
            entry.tools = tools or entry.tools
            is_new = tools is not None and tools is not self._server_tools
            is_new |= self._is_provisional
            if is_for_all and is_new:
                self._server_tools, self._is_provisional = entry.tools, False
            if self._watch is not None and is_for_all and entry.tools is self._server_tools:
                self._watch.end_listing(mark)
            if is_for_all and is_new and self._on_change is not None:
                self._on_change(self)

    def _lists_for_all(self, entry: PrincipalConnection) -> bool:
        """Whether everybody finds the tools that this connection lists."""
        if entry is self._shared:
            return True
        if self._logins.has_login(""):
            return self.listing is None
        # Without a shared login, that of the first caller does it, for as long as there is one.
        if not (self._lister and self._logins.has_login(self._lister)):
            self._lister = entry.principal
        return self.listing is None or entry.principal == self._lister

    async def _resubscribe(self, principal: str, connection: Connection) -> None:
        """Renew all subscriptions after a restart of the server; failures are ignored."""
        uris = tuple(uri for owner, uri in self._subscriptions if owner == principal)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.server.limits.connect_timeout_seconds):
                for uri in uris:
                    with suppress(MCPError, ValueError):
                        await connection.session.send_request(
                            _subscribe_request(uri), types.EmptyResult
                        )
        # Updates while the server was down were not announced: report each resource once.
        for uri in uris:
            self._notify_update(principal, uri)

    def _notify_update(self, principal: str, uri: str) -> None:
        if on_update := self._subscriptions.get((principal, uri)):
            on_update(uri)

    def _index_if_new(
        self, listing: Listing, entry: PrincipalConnection, *, is_for_all: bool
    ) -> ServerTools | None:
        """Define the tools of a listing and cache it; None if it is the one already known."""
        if listing == entry.tools.listing:
            return None
        if listing == self.listing:  # most servers list the same to everybody
            return self._server_tools
        tools = ServerTools.of(self.server, listing)
        if is_for_all and self._listings is not None:
            self._listings.save(self.name, self._cache_key, listing)
        return tools


def _subscribe_request(uri: str) -> types.SubscribeRequest:
    return types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
