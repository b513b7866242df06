"""One MCP server as a source of tools: asleep until needed, watched while awake."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import mcp_types as types
from mcp import MCPError

from ...catalog.result import Result
from ...catalog.tool import Tool
from ...errors import SourceError
from ...events import Sink, ignore
from . import listing as offers
from . import server_calls as calls
from . import wire
from .connection import Connection
from .expired_session import SessionExpired
from .listing import ServerTools
from .listing_cache import Listing, ListingCache
from .oauth_tokens import GrantStore
from .server_calls import ServerCall
from .servers import Server
from .supervisor import ConnectionStatus, ConnectionSupervisor

_MAX_TIMEOUTS = 3
_Answer = TypeVar("_Answer", bound=types.Result)
_UNKNOWN_EFFECT_HINT = "It may or may not have taken effect: look before calling again."


@dataclass(frozen=True, slots=True)
class ServerState:
    """How a server is right now, for people and for probes."""

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
    retry_seconds: float = 0.0
    problems: tuple[str, ...] = ()


class MCPSource:
    """Lists and runs the tools of one server.

    What the server last listed is known at once from `listings`; the server itself starts when
    it is first needed, and `changed` is told whenever it lists something else than was known.
    """

    def __init__(
        self,
        server: Server,
        *,
        listings: ListingCache | None = None,
        grants: GrantStore | None = None,
        changed: Callable[[MCPSource], None] | None = None,
        sink: Sink = ignore,
        talks_back: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = server.name
        self.server = server
        self._listings = listings
        self._changed = changed
        self._clock = clock
        self._slots = asyncio.Semaphore(max(1, server.limits.concurrency))
        self._turn = asyncio.Lock()
        self._timeouts = 0
        self._watched: dict[str, Callable[[str], None]] = {}
        self._taking = asyncio.Lock()
        listing = listings.load(server.name, server.digest) if listings else None
        self._known = ServerTools.of(server, listing)
        self._link = ConnectionSupervisor(
            server,
            heard=self._update_listing,
            clock=clock,
            sink=sink,
            talks_back=talks_back,
            grants=grants,
            last_protocol=listing.protocol if listing else "",
        )

    @property
    def listing(self) -> Listing | None:
        """What the server offers, as last heard; nothing before it was ever listed."""
        return self._known.listing

    @property
    def spellings(self) -> Mapping[str, str]:
        """Its tools' full names, by the one spelling that all ways to write a name share."""
        return self._known.spellings

    @property
    def definitions(self) -> Mapping[str, wire.MCPToolDefinition]:
        """Its tools by the names the server gives them, each with its whole definition."""
        return self._known.definitions

    @property
    def state(self) -> ServerState:
        """How the server is right now."""
        known, breaker = self._known, self._link.breaker
        listing = known.listing or Listing()
        return ServerState(
            server=self.name,
            status=self._link.status,
            reason=self.server.problem or breaker.reason,
            tools=len(known.definitions),
            prompts=len(listing.prompts),
            resources=len(listing.resources) + len(listing.templates),
            protocol=listing.protocol,
            is_listed=known.listing is not None,
            in_flight=self._link.in_flight,
            failures=breaker.failures,
            retry_seconds=round(breaker.wait_seconds(now=self._clock()), 1),
            problems=known.problems,
        )

    async def tools(self) -> Sequence[Tool]:
        """Its tools: at once as last known, or by asking a server that never listed any."""
        if self.server.is_disabled:
            return ()
        if self.listing is None:
            await self._link.ensure_connection()
        return tuple(d.tool for d in self.definitions.values())

    async def refresh(self) -> None:
        """Ask the server itself, waking it if it sleeps."""
        await self._link.ensure_connection()

    async def start(self, *, patience_seconds: float) -> None:
        """Start the server; one that takes longer than that goes on starting by itself."""
        with suppress(SourceError, TimeoutError):
            async with asyncio.timeout(patience_seconds):
                await self._link.ensure_connection()

    def wake(self) -> None:
        """Start the server in the background, if it sleeps and its wait is over."""
        self._link.wake()

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Run one tool, provided it still is the tool that the caller knows."""
        name, digest = wire.tool_origin(tool)
        hints = tool.annotations
        is_repeatable = bool(hints and (hints.read_only or hints.idempotent))
        call = ServerCall("tool", name, arguments, is_repeatable=is_repeatable)
        return await self._run_call(call, digest=digest)

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Result:
        """A prompt of the server, filled in."""
        return await self._run_call(ServerCall("prompt", name, arguments, is_repeatable=True))

    async def read_resource(self, uri: str) -> Result:
        """A resource of the server, read."""
        return await self._run_call(ServerCall("resource", uri, {}, is_repeatable=True))

    async def complete(self, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Suggestions for an argument of a prompt or of a resource template."""
        request = types.CompleteRequest(params=params)
        return await self._send_request(request, types.CompleteResult, params.argument.name)

    async def subscribe(self, uri: str, updated: Callable[[str], None]) -> None:
        """Hear of changes of a resource until it is unwatched, however often the server starts."""
        await self._send_request(_subscribe_request(uri), types.EmptyResult, uri)
        self._watched[uri] = updated
        self._link.is_watched = True

    async def unsubscribe(self, uri: str) -> None:
        """Hear no more of it; a server that is not there has forgotten it."""
        self._watched.pop(uri, None)
        self._link.is_watched = bool(self._watched)
        if self._link.status == "ready":
            request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
            await self._send_request(request, types.EmptyResult, uri)

    async def _send_request(
        self, request: types.ClientRequest, kind: type[_Answer], name: str
    ) -> _Answer:
        """What the server says to a request; one that forgot its session is asked in the next."""
        with suppress(SessionExpired):
            return await self._send_request_once(request, kind, name)
        return await self._send_request_once(request, kind, name)

    async def _send_request_once(
        self, request: types.ClientRequest, kind: type[_Answer], name: str
    ) -> _Answer:
        async with (
            self._acquire_connection() as connection,
            calls.enforce_call_timeout(self.server, name),
        ):
            try:
                return await connection.session.send_request(request, kind)
            except SessionExpired:
                self._link.discard_connection(connection)
                raise

    async def close(self, *, patience_seconds: float = 0.0) -> None:
        """Stop the server and everything that watches it; calls that run may end before."""
        taken = await self._drain(patience_seconds)
        await self._link.close()
        for _ in range(taken):
            self._slots.release()

    async def _drain(self, patience_seconds: float) -> int:
        """Take the places of all calls, as they end; how many that were in time."""
        taken = 0
        if patience_seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_seconds):
                    while taken < max(1, self.server.limits.concurrency):
                        await self._slots.acquire()
                        taken += 1
        return taken

    async def _run_call(self, call: ServerCall, *, digest: str = "") -> Result:
        """Send a call, and once more if it was lost and did not run, or may run twice."""
        try:
            return await self._run_call_once(call, digest)
        except calls.ConnectionLost as lost:
            if lost.may_have_run and not call.is_repeatable:
                raise self._connection_lost_error(call, lost) from lost
        try:
            return await self._run_call_once(call, digest)
        except calls.ConnectionLost as lost:
            raise self._connection_lost_error(call, lost) from lost

    def _connection_lost_error(self, call: ServerCall, lost: calls.ConnectionLost) -> SourceError:
        if not lost.may_have_run:
            return SourceError(
                f"Server {self.name!r} was lost before {call.name!r} could run.",
                hint="It has not run: try again later.",
            )
        again = "It may be called again." if call.is_repeatable else _UNKNOWN_EFFECT_HINT
        return SourceError(f"Server {self.name!r} ended while {call.name!r} ran.", hint=again)

    async def _run_call_once(self, call: ServerCall, digest: str) -> Result:
        async with self._acquire_connection() as connection:
            if digest:
                self._require_unchanged(call.name, digest)
            try:
                result = await calls.run_call(connection, self.server, call)
            except calls.CallTimeout:
                self._timeouts += 1
                if self._timeouts >= _MAX_TIMEOUTS:
                    self._timeouts = 0
                    self._link.discard_connection(connection)
                raise
            except calls.ConnectionLost as lost:
                if not lost.may_have_run:
                    self._link.discard_connection(connection)
                raise
            finally:
                connection.served += 1
        self._timeouts = 0
        return result

    def _require_unchanged(self, name: str, digest: str) -> None:
        known = self.definitions.get(name)
        if known is None or known.digest != digest:
            did = "changed" if known else "removed"
            raise SourceError(f"Server {self.name!r} has {did} {name!r}.", hint="Search again.")

    @asynccontextmanager
    async def _acquire_connection(self) -> AsyncGenerator[Connection]:
        """A live connection, once there is room for one more call on it."""
        async with AsyncExitStack() as stack:
            await self._acquire_lock(stack, self._slots)
            connection = await self._link.ensure_connection()
            if connection.has_asked and self.server.transport == "stdio":
                # On a pipe a question does not say which call it belongs to: one at a time.
                await self._acquire_lock(stack, self._turn)
                # The one before may have been its last.
                connection = await self._link.ensure_connection()
            self._link.in_flight += 1
            try:
                with connection.mark_busy():
                    yield connection
            finally:
                self._link.in_flight -= 1
                self._link.touch()

    async def _acquire_lock(
        self, stack: AsyncExitStack, lock: asyncio.Semaphore | asyncio.Lock
    ) -> None:
        try:
            async with asyncio.timeout(self.server.limits.call_timeout_seconds or None):
                await stack.enter_async_context(lock)
        except TimeoutError as error:
            raise SourceError(
                f"Server {self.name!r} is busy with {self._link.in_flight} other calls.",
                hint="Try again later.",
            ) from error

    async def _update_listing(self, connection: Connection) -> None:
        async with asyncio.timeout(self.server.limits.connect_timeout_seconds):
            listing = await offers.fetch_listing(connection.session, connection.dispatcher)
        if connection.updated is None:
            connection.updated = self._notify_update
            await self._resubscribe(connection)
        async with self._taking:
            # A long list takes seconds, in which other servers are to be heard and called.
            known = await asyncio.to_thread(self._index_if_new, listing)
            if known is None:
                return
            # From one moment to the next: whoever judges the tools hears of it as they change.
            self._known = known
            if self._changed is not None:
                self._changed(self)

    async def _resubscribe(self, connection: Connection) -> None:
        """Watch at a server that has started what was watched before; failing that is no end."""
        watched = tuple(self._watched)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.server.limits.connect_timeout_seconds):
                for uri in watched:
                    with suppress(MCPError, ValueError):
                        await connection.session.send_request(
                            _subscribe_request(uri), types.EmptyResult
                        )
        for uri in watched:  # what changed before the server began to tell was not told
            self._notify_update(uri)

    def _notify_update(self, uri: str) -> None:
        if uri in self._watched:
            self._watched[uri](uri)

    def _index_if_new(self, listing: Listing) -> ServerTools | None:
        """What a listing comes to, kept for the next start; nothing if it says nothing new."""
        if listing == self._known.listing:
            return None
        known = ServerTools.of(self.server, listing)
        if self._listings is not None:
            self._listings.save(self.name, self.server.digest, listing)
        return known


def _subscribe_request(uri: str) -> types.SubscribeRequest:
    return types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
