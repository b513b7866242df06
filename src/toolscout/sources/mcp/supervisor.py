"""Keeps at most one connection to a server: connect, relist, stop when idle, reconnect."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from mcp import MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from ...errors import SourceError
from ...events import (
    Sink,
    UpstreamFailedEvent,
    UpstreamIdleEvent,
    UpstreamLostEvent,
    UpstreamReadyEvent,
    UpstreamStartingEvent,
    combine_sinks,
    stamp_sink,
)
from ..server_status import ServerStatus
from .connect_errors import ConnectFailure, explain_failure
from .connection import Connection
from .dispatcher import SessionExpiredError
from .message_repair import is_disconnect
from .oauth_tokens import Grant, OAuthTokenAuth, OAuthTokenStore
from .server_backoff import ServerBackoff
from .server_log import ServerLog
from .servers import Protocol, Server
from .streams import wait_for_first

log = logging.getLogger(__name__)
SLOW_START_SECONDS = 1.0
"""A start that takes longer is an event, so that an operator sees what is waited for."""
# After so many failures in a row, only a call or `wake` tries again.
_MAX_FAILURES = 5
# A connection that ends sooner, without having served a call, counts as a failure. Otherwise a
# server that crashes right after its start would be restarted without any wait.
_SHORT_LIFE_SECONDS = 5.0
# Listing may itself be what a server announces a change for: some would be listed in a loop.
_RELIST_PAUSE_SECONDS = 1.0


class ConnectionSupervisor:
    """Owns the connection to a server.

    `on_listing_due` is awaited for each new connection and whenever its lists may have changed.
    """

    def __init__(
        self,
        server: Server,
        *,
        on_listing_due: Callable[[Connection], Awaitable[None]],
        clock: Callable[[], float],
        sink: Sink,
        forwards_requests: bool,
        grants: OAuthTokenStore | None = None,
        principal: str = "",
        last_protocol: str = "",
        server_log: ServerLog | None = None,
    ) -> None:
        self.breaker = ServerBackoff()
        self.in_flight = 0
        self.has_subscriptions = False
        self._server = server
        self._on_listing_due = on_listing_due
        self._clock = clock
        self._sink = stamp_sink(combine_sinks(server_log, sink) if server_log else sink)
        self._log_output = server_log.write_output if server_log else None
        self._forwards_requests = forwards_requests
        # A configured Authorization header wins over a login.
        self._grants = None if server.has_authorization or not server.url else grants
        self._principal = principal
        self._tried_grant: Grant | None = None
        self._protocol: Protocol = server.protocol
        # The server is known to need the handshake: skip the probe for the newer protocol, which
        # costs a round trip and which some servers cannot handle.
        if server.protocol == "auto" and last_protocol in HANDSHAKE_PROTOCOL_VERSIONS:
            self._protocol = "handshake"
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._last_used = clock()
        self._closed = asyncio.Event()

    @property
    def status(self) -> ServerStatus:
        """The status of the connection in one word."""
        if self._server.is_disabled:
            return "disabled"
        if self._server.problem:
            return "misconfigured"
        if self._closed.is_set():
            return "closed"
        if self._is_up():
            return "ready"
        # A retry is not a start: a server that keeps failing must not look like one that starts.
        if self.breaker.failures:
            return "needs login" if self.breaker.needs_login else "failing"
        return "idle" if self._opening is None else "starting"

    def _is_up(self) -> bool:
        return self._connection is not None and not self._connection.ended.is_set()

    def touch(self) -> None:
        """Record a use of the server, which restarts its idle time."""
        self._last_used = self._clock()

    async def ensure_connection(self) -> Connection:
        """The live connection, opened if there is none; SourceError if that is impossible now."""
        self.touch()
        if self._connection is not None and self._is_up():
            return self._connection
        if self._opening is None:
            self._require_available()
            self._opening = self._spawn(self._open())
            self._opening.add_done_callback(self._clear_opening)
        opening = self._opening
        # All callers wait for the same attempt. `wait`, unlike `await`, does not cancel it for the
        # others when one caller is cancelled.
        await asyncio.wait([opening])
        if opening.cancelled():
            # `close` cancelled the attempt, but this caller is not cancelled: a CancelledError here
            # would take down its task, so it gets the "closed" error instead.
            self._require_available()
        return opening.result()

    def _clear_opening(self, task: asyncio.Task[Connection]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # marks it as retrieved; asyncio would log it otherwise

    def wake(self) -> None:
        """Connect in the background if the server is down and its back-off is over."""
        is_down = self.status in ("idle", "failing", "needs login") and self._opening is None
        if is_down and self.breaker.may_try(now=self._clock()):
            self._spawn(self._try_connect())

    def relist(self) -> None:
        """List in the background, as if the server had announced a change."""
        if self._connection is not None and self._is_up():
            self._connection.list_changed.set()
        else:
            self.wake()

    async def close(self) -> None:
        """Close the connection and stop all background tasks."""
        self._closed.set()
        tasks = [t for t in self._tasks if t is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connection is not None:
            self._close_in_background(self._connection)
        # A loop, because a task that was just cancelled may start to close its connection.
        while pending := [task for task in self._closing if not task.done()]:
            await asyncio.wait(pending)

    def discard_connection(self, connection: Connection) -> None:
        """Stop using a connection; the next call, or a subscription at once, opens another."""
        if self._connection is connection:
            self._connection = None
            self._close_in_background(connection)
            if self.has_subscriptions:
                self.wake()

    def _require_available(self) -> None:
        name = self._server.name
        if self._server.problem:
            raise SourceError(self._server.problem)
        if self._closed.is_set():
            raise SourceError(
                f"Server {name!r} is closed.",
                hint="It was stopped or its configuration changed: search again, then call.",
            )
        if self._server.is_disabled:
            raise SourceError(
                f"Server {name!r} is disabled.",
                hint='Remove "disabled" from its entry to use it.',
            )
        now = self._clock()
        # A new login is likely to solve the problem, so it need not wait for the back-off.
        if not self.breaker.may_try(now=now) and self._current_grant() == self._tried_grant:
            raise SourceError(
                f"Server {name!r} is unavailable: {self.breaker.reason}",
                hint=self.breaker.retry_message(now=now),
            )

    async def _open(self) -> Connection:
        try:
            connection = await self._connect_once()
        except _ConnectError as error:
            if self._server.protocol != "auto" or self._protocol == error.next_protocol:
                raise self._fail_to_connect(error.failure) from error
            # Either the server crashed on the probe for the newer protocol, then the handshake
            # alone may work; or it no longer speaks the protocol that it was known for.
            self._protocol = error.next_protocol
            try:
                connection = await self._connect_once()
            except _ConnectError as second_error:
                self._protocol = "auto"
                raise self._fail_to_connect(second_error.failure) from second_error
        before, self.breaker = self.breaker, self.breaker.record_success()
        self._connection = connection
        self._sink(UpstreamReadyEvent(server=self._server.name))
        self._spawn(self._supervise(connection, before))
        return connection

    def _fail_to_connect(self, failure: ConnectFailure) -> SourceError:
        self._record_failure(self.breaker, failure)
        return SourceError(f"Cannot use MCP server {self._server.name!r}: {failure.reason}")

    def _record_failure(self, before: ServerBackoff, failure: ConnectFailure) -> None:
        self.breaker = before.record_failure(
            failure.reason, now=self._clock(), needs_login=failure.needs_login
        )
        self._sink(
            UpstreamFailedEvent(
                server=self._server.name,
                reason=failure.reason,
                failures=self.breaker.failures,
                needs_login=failure.needs_login,
            )
        )

    async def _connect_once(self) -> Connection:
        self._tried_grant = self._current_grant()
        connection = Connection(
            self._server,
            protocol=self._protocol,
            forwards_requests=self._forwards_requests,
            auth=self._build_auth(),
            log_output=self._log_output,
        )
        event = UpstreamStartingEvent(server=self._server.name)
        slow = asyncio.get_running_loop().call_later(SLOW_START_SECONDS, self._sink, event)
        try:
            await connection.wait_until_open(self._server.limits.connect_timeout_seconds)
            await self._on_listing_due(connection)
        except asyncio.CancelledError:
            self._close_in_background(connection)
            raise
        except Exception as error:
            failure = explain_failure(
                error, connection, self._server, unreadable_login=self._explain_unreadable()
            )
            self._close_in_background(connection)
            raise _ConnectError(failure, error) from error
        finally:
            slow.cancel()
        return connection

    def _current_grant(self) -> Grant | None:
        """The tokens of the last login."""
        return self._grants.load(self._server.url, self._principal) if self._grants else None

    def _build_auth(self) -> OAuthTokenAuth | None:
        if self._grants is None:
            return None
        return OAuthTokenAuth(self._grants, self._server.url, self._principal)

    def _explain_unreadable(self) -> str:
        if self._grants is None:
            return ""
        return self._grants.explain_unreadable(self._server.url, self._principal)

    async def _supervise(self, connection: Connection, before: ServerBackoff) -> None:
        """Relist, stop or replace one connection, until it ends; `before` are earlier failures."""
        opened_at = self._clock()
        # Stateless servers announce changes only on a stream that the client opens. Others send
        # notifications on the connection itself.
        follower = (
            self._spawn(self._follow_changes(connection)) if connection.is_stateless else None
        )
        while not await self._wait_and_relist(connection):
            pass
        if follower is not None:
            follower.cancel()
        if self._connection is not connection:
            return
        self._connection = None
        if not connection.ended.is_set():
            await asyncio.shield(self._close_in_background(connection))
            self._sink(UpstreamIdleEvent(server=self._server.name))
            return
        reason = connection.end_reason or connection.stderr_tail
        self._sink(UpstreamLostEvent(server=self._server.name, reason=reason))
        if not connection.calls_served and self._clock() - opened_at < _SHORT_LIFE_SECONDS:
            cause = connection.end_reason or "it ended soon after it started."
            failure = ConnectFailure(cause, connection.stderr_tail)
            self._record_failure(before, failure)
        await self._reconnect()

    async def _wait_and_relist(self, connection: Connection) -> bool:
        """Wait for a change, a poll or the idle time; True when the connection is to end."""
        wait_seconds = self._next_check_seconds(connection)
        await wait_for_first(
            connection.ended, connection.list_changed, timeout_seconds=wait_seconds
        )
        if connection.ended.is_set() or self._connection is not connection:
            return True
        is_announced = connection.list_changed.is_set()
        # An announced change is fetched before the server is stopped, so that the cache is right.
        if self._is_idle() and not is_announced:
            return True
        await self._relist(connection)
        if is_announced:
            await wait_for_first(connection.ended, timeout_seconds=_RELIST_PAUSE_SECONDS)
        return False

    async def _relist(self, connection: Connection) -> None:
        # Cleared first: a change announced while the list is fetched must not get lost.
        connection.list_changed.clear()
        try:
            await self._on_listing_due(connection)
        except SessionExpiredError:
            self.discard_connection(connection)
            self._spawn(self._try_connect())
        except (MCPError, TimeoutError, ValueError) as error:
            log.warning("Cannot list %s again: %s", self._server.name, error)

    def _idle_seconds(self) -> float:
        return 0.0 if self.in_flight or self.has_subscriptions else self._clock() - self._last_used

    def _is_idle(self) -> bool:
        return 0 < self._server.limits.idle_seconds <= self._idle_seconds()

    def _next_check_seconds(self, connection: Connection) -> float | None:
        limits = self._server.limits
        is_polled = limits.poll_seconds and not connection.announces_changes
        poll_seconds = limits.poll_seconds if is_polled else None
        if limits.idle_seconds <= 0:
            return poll_seconds
        # Never 0: the timer may fire just before the idle time is over, and the loop would spin.
        idle_seconds = max(0.05, limits.idle_seconds - self._idle_seconds())
        return min(idle_seconds, poll_seconds) if poll_seconds else idle_seconds

    async def _follow_changes(self, connection: Connection) -> None:
        while not connection.ended.is_set():
            try:
                await connection.follow_changes()
            except (SubscriptionLost, MCPError, TimeoutError) as error:
                log.debug("No change notifications from %s: %s", self._server.name, error)
            await asyncio.sleep(self._server.limits.poll_seconds or 60.0)

    async def _reconnect(self) -> None:
        while not self._closed.is_set() and self.breaker.failures < _MAX_FAILURES:
            await asyncio.sleep(self.breaker.wait_seconds(now=self._clock()))
            if await self._try_connect():
                return

    async def _try_connect(self) -> bool:
        try:
            await self.ensure_connection()
        except SourceError as error:
            log.debug("%s", error)
            return False
        return True

    def _close_in_background(self, connection: Connection) -> asyncio.Task[None]:
        """Close a connection completely, even if the task that asked for it is cancelled."""
        task = asyncio.create_task(self._close_when_idle(connection), context=contextvars.Context())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    async def _close_when_idle(self, connection: Connection) -> None:
        """Wait for calls that still run on a connection, unless everything is being closed."""
        await wait_for_first(connection.idle, self._closed)
        await connection.close()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        # A fresh context: the task does not belong to the call that happened to start it.
        task = asyncio.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _ConnectError(Exception):
    """One attempt to connect failed; says why, and which protocol to try next."""

    def __init__(self, failure: ConnectFailure, error: Exception) -> None:
        super().__init__(failure.reason)
        self.failure = failure
        self.next_protocol: Protocol = "handshake" if is_disconnect(error) else "auto"
