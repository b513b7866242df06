"""The link to one server: opened when needed, watched, and opened again with patience."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Literal

from mcp import MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from ...errors import SourceError
from ...events import Event, Sink
from .breaker import Breaker
from .connect_errors import explain_failure
from .connection import Connection
from .expired_session import SessionExpired
from .message_repair import is_disconnect
from .oauth_tokens import Grant, GrantAuth, GrantStore
from .servers import Protocol, Server
from .streams import wait_for_first

log = logging.getLogger(__name__)
ConnectionStatus = Literal["disabled", "broken", "asleep", "starting", "ready", "waiting", "closed"]
_MAX_FAILURES = 5
_SHORT_LIFE_SECONDS = 5.0
_RELIST_PAUSE_SECONDS = 1.0


class ConnectionSupervisor:
    """At most one live connection; `heard` is awaited on each new one and on each change."""

    def __init__(
        self,
        server: Server,
        *,
        heard: Callable[[Connection], Awaitable[None]],
        clock: Callable[[], float],
        sink: Sink,
        talks_back: bool,
        grants: GrantStore | None = None,
        last_protocol: str = "",
    ) -> None:
        self.breaker = Breaker()
        self.in_flight = 0
        self.is_watched = False
        self._server = server
        self._heard = heard
        self._clock = clock
        self._sink = sink
        self._talks_back = talks_back
        self._grants = None if server.has_authorization or not server.url else grants
        self._tried: Grant | None = None
        self._protocol: Protocol = server.protocol
        if server.protocol == "auto" and last_protocol in HANDSHAKE_PROTOCOL_VERSIONS:
            self._protocol = "handshake"
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._used_at = clock()
        self._over = asyncio.Event()

    @property
    def status(self) -> ConnectionStatus:
        """How the link is, in a word."""
        if self._server.is_disabled:
            return "disabled"
        if self._server.problem:
            return "broken"
        if self._over.is_set():
            return "closed"
        if self._is_up():
            return "ready"
        if self._opening is not None:
            return "starting"
        return "waiting" if self.breaker.failures else "asleep"

    def _is_up(self) -> bool:
        return self._connection is not None and not self._connection.ended.is_set()

    def touch(self) -> None:
        """Somebody uses the server: it is not idle."""
        self._used_at = self._clock()

    async def ensure_connection(self) -> Connection:
        """The live connection, opened if there is none; SourceError if there can be none now."""
        self.touch()
        if self._connection is not None and self._is_up():
            return self._connection
        if self._opening is None:
            self._require_available()
            self._opening = self._spawn(self._open())
            self._opening.add_done_callback(self._clear_opening)
        opening = self._opening
        await asyncio.wait([opening])
        if opening.cancelled():
            # Closing the link cancelled the attempt; nobody cancelled this caller.
            self._require_available()
        return opening.result()

    def _clear_opening(self, task: asyncio.Task[Connection]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()

    def wake(self) -> None:
        """Open the link in the background, if it is down and its wait is over."""
        if self.status in ("asleep", "waiting") and self.breaker.may_try(now=self._clock()):
            self._spawn(self._try_connect())

    async def close(self) -> None:
        """Close the connection and stop everything that watches it."""
        self._over.set()
        tasks = [t for t in self._tasks if t is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connection is not None:
            self._close_in_background(self._connection)
        while pending := [task for task in self._closing if not task.done()]:
            await asyncio.wait(pending)

    def discard_connection(self, connection: Connection) -> None:
        """Use a connection no more; the next call opens another, and who watches has it at once."""
        if self._connection is connection:
            self._connection = None
            self._close_in_background(connection)
            if self.is_watched:
                self.wake()

    def _require_available(self) -> None:
        name = self._server.name
        if self._server.problem:
            raise SourceError(self._server.problem)
        if self._over.is_set():
            raise SourceError(
                f"Server {name!r} is closed.",
                hint="It was stopped or its configuration changed: search again, then call.",
            )
        if self._server.is_disabled:
            raise SourceError(
                f"Server {name!r} is disabled.",
                hint='Take "disabled" out of its entry to use it.',
            )
        now = self._clock()
        if not self.breaker.may_try(now=now) and self._current_grant() == self._tried:
            raise SourceError(
                f"Server {name!r} is unavailable: {self.breaker.reason}",
                hint=self.breaker.retry_message(now=now),
            )

    async def _open(self) -> Connection:
        try:
            connection = await self._connect_once()
        except _ConnectFailure as error:
            if self._server.protocol != "auto" or self._protocol == error.next_protocol:
                raise self._record_failure(error) from error
            # The probe for the newer protocol may be what the server fell over; or it was renewed.
            self._protocol = error.next_protocol
            try:
                connection = await self._connect_once()
            except _ConnectFailure as again:
                self._protocol = "auto"
                raise self._record_failure(again) from again
        self.breaker = self.breaker.record_success()
        self._connection = connection
        self._emit("upstream_ready")
        self._spawn(self._supervise(connection))
        return connection

    def _record_failure(self, error: _ConnectFailure) -> SourceError:
        self.breaker = self.breaker.record_failure(error.reason, now=self._clock())
        self._emit("upstream_failed", reason=error.reason)
        return SourceError(f"Cannot use MCP server {self._server.name!r}: {error.reason}")

    async def _connect_once(self) -> Connection:
        self._tried = self._current_grant()
        connection = Connection(
            self._server,
            protocol=self._protocol,
            talks_back=self._talks_back,
            auth=GrantAuth(self._grants, self._server.url) if self._grants else None,
        )
        try:
            await connection.wait_until_open(self._server.limits.connect_timeout_seconds)
            await self._heard(connection)
        except asyncio.CancelledError:
            self._close_in_background(connection)
            raise
        except Exception as error:
            reason = explain_failure(error, connection, self._server)
            self._close_in_background(connection)
            raise _ConnectFailure(reason, error) from error
        return connection

    def _current_grant(self) -> Grant | None:
        """What the last login gave; another than was tried is a reason to try again."""
        return self._grants.load(self._server.url) if self._grants else None

    async def _supervise(self, connection: Connection) -> None:
        """Watch one connection until it ends: changes, polling, idleness, revival."""
        opened_at = self._clock()
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
            self._emit("upstream_asleep")
            return
        self._emit("upstream_lost", reason=connection.stderr_tail)
        if not connection.served and self._clock() - opened_at < _SHORT_LIFE_SECONDS:
            reason = f"it ended soon after it started. {connection.stderr_tail}".strip()
            self.breaker = self.breaker.record_failure(reason, now=self._clock())
        await self._reconnect()

    async def _wait_and_relist(self, connection: Connection) -> bool:
        rest = self._next_check_seconds(connection)
        await wait_for_first(connection.ended, connection.changed, timeout_seconds=rest)
        if connection.ended.is_set() or self._connection is not connection:
            return True
        is_told = connection.changed.is_set()
        if self._is_idle() and not is_told:
            return True
        await self._relist(connection)
        if is_told:  # listing may itself be what a server announces a change for
            await wait_for_first(connection.ended, timeout_seconds=_RELIST_PAUSE_SECONDS)
        return False

    async def _relist(self, connection: Connection) -> None:
        connection.changed.clear()
        try:
            await self._heard(connection)
        except SessionExpired:
            self.discard_connection(connection)
            self._spawn(self._try_connect())
        except (MCPError, TimeoutError, ValueError) as error:
            log.warning("Cannot list %s again: %s", self._server.name, error)

    def _idle_seconds(self) -> float:
        return 0.0 if self.in_flight or self.is_watched else self._clock() - self._used_at

    def _is_idle(self) -> bool:
        return 0 < self._server.limits.idle_seconds <= self._idle_seconds()

    def _next_check_seconds(self, connection: Connection) -> float | None:
        limits = self._server.limits
        polls = (
            limits.poll_seconds
            if limits.poll_seconds and not connection.announces_changes
            else None
        )
        if limits.idle_seconds <= 0:
            return polls
        idle = max(0.05, limits.idle_seconds - self._idle_seconds())
        return min(idle, polls) if polls else idle

    async def _follow_changes(self, connection: Connection) -> None:
        while not connection.ended.is_set():
            try:
                await connection.follow_changes()
            except (SubscriptionLost, MCPError, TimeoutError) as error:
                log.debug("No word of changes from %s: %s", self._server.name, error)
            await asyncio.sleep(self._server.limits.poll_seconds or 60.0)

    async def _reconnect(self) -> None:
        while not self._over.is_set() and self.breaker.failures < _MAX_FAILURES:
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

    def _emit(self, kind: str, **facts: str) -> None:
        self._sink(Event(kind, facts={"server": self._server.name, **facts}))

    def _close_in_background(self, connection: Connection) -> asyncio.Task[None]:
        """Close a connection to the end, whatever happens to whoever wanted it closed."""
        task = asyncio.create_task(self._close_when_free(connection), context=contextvars.Context())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    async def _close_when_free(self, connection: Connection) -> None:
        """Let what still runs on a connection end by itself, unless all is to end."""
        await wait_for_first(connection.free, self._over)
        await connection.close()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        # A fresh context: none of this belongs to the call that happened to need it first.
        task = asyncio.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _ConnectFailure(Exception):
    """One attempt failed; says why, and which protocol to try next."""

    def __init__(self, reason: str, error: Exception) -> None:
        super().__init__(reason)
        self.reason = reason
        self.next_protocol: Protocol = "handshake" if is_disconnect(error) else "auto"
