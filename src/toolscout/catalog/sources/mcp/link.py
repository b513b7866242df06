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

from ....errors import SourceError
from ....events import Event, Sink
from .breaker import Breaker
from .connection import Connection
from .forgotten import Forgotten
from .grants import Grant, Granted, Grants
from .reasons import explain
from .salvage import is_cut
from .servers import Protocol, Server
from .streams import first_of

log = logging.getLogger(__name__)
Status = Literal["disabled", "broken", "asleep", "starting", "ready", "waiting", "closed"]
_GIVES_UP_AFTER = 5
_SHORT_LIFE_SECONDS = 5.0
_REST_SECONDS = 1.0


class Link:
    """At most one live connection; `heard` is awaited on each new one and on each change."""

    def __init__(
        self,
        server: Server,
        *,
        heard: Callable[[Connection], Awaitable[None]],
        clock: Callable[[], float],
        sink: Sink,
        talks_back: bool,
        grants: Grants | None = None,
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
        self._grants = None if server.is_signed or not server.url else grants
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
    def status(self) -> Status:
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

    async def connection(self) -> Connection:
        """The live connection, opened if there is none; SourceError if there can be none now."""
        self.touch()
        if self._connection is not None and self._is_up():
            return self._connection
        if self._opening is None:
            self._check()
            self._opening = self._spawn(self._open())
            self._opening.add_done_callback(self._opened)
        opening = self._opening
        await asyncio.wait([opening])
        if opening.cancelled():
            self._check()  # whoever closed the link did that, and nobody cancelled this caller
        return opening.result()

    def _opened(self, task: asyncio.Task[Connection]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()

    def wake(self) -> None:
        """Open the link in the background, if it is down and its wait is over."""
        if self.status in ("asleep", "waiting") and self.breaker.may_try(now=self._clock()):
            self._spawn(self._try())

    async def close(self) -> None:
        """Close the connection and stop everything that watches it."""
        self._over.set()
        tasks = [t for t in self._tasks if t is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connection is not None:
            self._let_go(self._connection)
        while pending := [task for task in self._closing if not task.done()]:
            await asyncio.wait(pending)

    def renew(self, connection: Connection) -> None:
        """Use a connection no more; the next call opens another, and who watches has it at once."""
        if self._connection is connection:
            self._connection = None
            self._let_go(connection)
            if self.is_watched:
                self.wake()

    def _check(self) -> None:
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
        if not self.breaker.may_try(now=now) and self._granted() == self._tried:
            raise SourceError(
                f"Server {name!r} is unavailable: {self.breaker.reason}",
                hint=self.breaker.hope(now=now),
            )

    async def _open(self) -> Connection:
        try:
            connection = await self._attempt()
        except _Failed as error:
            if self._server.protocol != "auto" or self._protocol == error.next_protocol:
                raise self._note(error) from error
            # The probe for the newer protocol may be what the server fell over; or it was renewed.
            self._protocol = error.next_protocol
            try:
                connection = await self._attempt()
            except _Failed as again:
                self._protocol = "auto"
                raise self._note(again) from again
        self.breaker = self.breaker.succeeded()
        self._connection = connection
        self._tell("upstream_ready")
        self._spawn(self._keep(connection))
        return connection

    def _note(self, error: _Failed) -> SourceError:
        self.breaker = self.breaker.failed(error.reason, now=self._clock())
        self._tell("upstream_failed", reason=error.reason)
        return SourceError(f"Cannot use MCP server {self._server.name!r}: {error.reason}")

    async def _attempt(self) -> Connection:
        self._tried = self._granted()
        connection = Connection(
            self._server,
            protocol=self._protocol,
            talks_back=self._talks_back,
            auth=Granted(self._grants, self._server.url) if self._grants else None,
        )
        try:
            await connection.opened(self._server.limits.connect_timeout_seconds)
            await self._heard(connection)
        except asyncio.CancelledError:
            self._let_go(connection)
            raise
        except Exception as error:
            reason = explain(error, connection, self._server)
            self._let_go(connection)
            raise _Failed(reason, error) from error
        return connection

    def _granted(self) -> Grant | None:
        """What the last login gave; another than was tried is a reason to try again."""
        return self._grants.load(self._server.url) if self._grants else None

    async def _keep(self, connection: Connection) -> None:
        """Watch one connection until it ends: changes, polling, idleness, revival."""
        opened_at = self._clock()
        follower = self._spawn(self._follow(connection)) if connection.is_stateless else None
        while not await self._is_over(connection):
            pass
        if follower is not None:
            follower.cancel()
        if self._connection is not connection:
            return
        self._connection = None
        if not connection.ended.is_set():
            await asyncio.shield(self._let_go(connection))
            self._tell("upstream_asleep")
            return
        self._tell("upstream_lost", reason=connection.last_words)
        if not connection.served and self._clock() - opened_at < _SHORT_LIFE_SECONDS:
            reason = f"it ended soon after it started. {connection.last_words}".strip()
            self.breaker = self.breaker.failed(reason, now=self._clock())
        await self._revive()

    async def _is_over(self, connection: Connection) -> bool:
        rest = self._next_look(connection)
        await first_of(connection.ended, connection.changed, timeout_seconds=rest)
        if connection.ended.is_set() or self._connection is not connection:
            return True
        is_told = connection.changed.is_set()
        if self._is_idle() and not is_told:
            return True
        await self._look(connection)
        if is_told:  # listing may itself be what a server announces a change for
            await first_of(connection.ended, timeout_seconds=_REST_SECONDS)
        return False

    async def _look(self, connection: Connection) -> None:
        connection.changed.clear()
        try:
            await self._heard(connection)
        except Forgotten:
            self.renew(connection)
            self._spawn(self._try())
        except (MCPError, TimeoutError, ValueError) as error:
            log.warning("Cannot list %s again: %s", self._server.name, error)

    def _unused_seconds(self) -> float:
        return 0.0 if self.in_flight or self.is_watched else self._clock() - self._used_at

    def _is_idle(self) -> bool:
        return 0 < self._server.limits.idle_seconds <= self._unused_seconds()

    def _next_look(self, connection: Connection) -> float | None:
        limits = self._server.limits
        polls = limits.poll_seconds if limits.poll_seconds and not connection.announces else None
        if limits.idle_seconds <= 0:
            return polls
        idle = max(0.05, limits.idle_seconds - self._unused_seconds())
        return min(idle, polls) if polls else idle

    async def _follow(self, connection: Connection) -> None:
        while not connection.ended.is_set():
            try:
                await connection.follow()
            except (SubscriptionLost, MCPError, TimeoutError) as error:
                log.debug("No word of changes from %s: %s", self._server.name, error)
            await asyncio.sleep(self._server.limits.poll_seconds or 60.0)

    async def _revive(self) -> None:
        while not self._over.is_set() and self.breaker.failures < _GIVES_UP_AFTER:
            await asyncio.sleep(self.breaker.wait_seconds(now=self._clock()))
            if await self._try():
                return

    async def _try(self) -> bool:
        try:
            await self.connection()
        except SourceError as error:
            log.debug("%s", error)
            return False
        return True

    def _tell(self, kind: str, **facts: str) -> None:
        self._sink(Event(kind, facts={"server": self._server.name, **facts}))

    def _let_go(self, connection: Connection) -> asyncio.Task[None]:
        """Close a connection to the end, whatever happens to whoever wanted it closed."""
        task = asyncio.create_task(self._see_off(connection), context=contextvars.Context())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    async def _see_off(self, connection: Connection) -> None:
        """Let what still runs on a connection end by itself, unless all is to end."""
        await first_of(connection.free, self._over)
        await connection.close()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        # A fresh context: none of this belongs to the call that happened to need it first.
        task = asyncio.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _Failed(Exception):
    """One attempt failed; says why, and which protocol to try next."""

    def __init__(self, reason: str, error: Exception) -> None:
        super().__init__(reason)
        self.reason = reason
        self.next_protocol: Protocol = "handshake" if is_cut(error) else "auto"
