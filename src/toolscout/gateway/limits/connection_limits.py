"""Limits on connections: how many there are, and how long a request may take to arrive."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from .limit_settings import LimitSettings
from .refusals import SHORT_WAIT_SECONDS, Refusal

HEALTH_PATH = "/health"
# Connections beyond the limit that may still ask for the health.
_RESERVE = 32
# Files that connections leave free: the store, logs, and the pipes of server processes.
_FREE_FILES = 128
_MIN_CONNECTIONS = 16
_MAX_FILES = 8_192
# A peer that vanished without a word is noticed within about this time.
_DEAD_PEER_SECONDS = 60

_TOO_MANY = Refusal(503, "Too many connections.", closes=True)
_TOO_MANY_FROM_ADDRESS = Refusal(429, "Too many connections from this address.", closes=True)
_TOO_SLOW = Refusal(408, "The request took too long to arrive.", closes=True)


def raise_file_limit() -> int | None:
    """Let this process open as many files as it may; returns how many, None if unknown."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return None if soft == resource.RLIM_INFINITY else soft


class CountedConnection(Protocol):
    """A connection that is counted, and can be closed in favour of another."""

    def drop(self) -> None:
        """Close the connection at once."""
        ...


class ConnectionGuard:
    """Counts connections, and decides which to accept and which to close.

    When there are too many, the one that has waited longest for its request is closed: a client
    that sends its request at once is always served before sockets that send nothing.
    """

    def __init__(
        self, read_limits: Callable[[], LimitSettings], *, max_files: int | None = None
    ) -> None:
        self._read_limits = read_limits
        self._max_files = max_files
        self._open: dict[CountedConnection, str] = {}
        self._per_address: Counter[str] = Counter()
        self._waiting: OrderedDict[CountedConnection, None] = OrderedDict()

    @property
    def limits(self) -> LimitSettings:
        """The limits as they are configured now."""
        return self._read_limits()

    @property
    def max_connections(self) -> int:
        """The configured limit, or fewer if the process may not open so many files."""
        configured = self.limits.connections
        if self._max_files is None:
            return configured
        return min(configured, max(_MIN_CONNECTIONS, self._max_files - _FREE_FILES - _RESERVE))

    def admit(self, connection: CountedConnection, address: str) -> Refusal | None:
        """Count a new connection; a refusal if it may only ask for the health."""
        self._open[connection] = address
        self._per_address[address] += 1
        refusal = self._judge(address)
        if refusal is None:
            return None
        if self._is_one_too_many(address, refusal) and self._evict(connection, address, refusal):
            return None
        # Nor may silent sockets use up the places that are kept for health.
        if self.is_full():
            self._evict(connection, address, _TOO_MANY)
        return refusal

    def is_full(self) -> bool:
        """Whether even the connections for health are used up."""
        return len(self._open) > self.max_connections + _RESERVE

    def _judge(self, address: str) -> Refusal | None:
        if len(self._open) > self.max_connections:
            return _TOO_MANY
        if self._per_address[address] > self.limits.connections_per_address:
            return _TOO_MANY_FROM_ADDRESS
        return None

    def _is_one_too_many(self, address: str, refusal: Refusal) -> bool:
        if refusal is _TOO_MANY:
            return len(self._open) - 1 <= self.max_connections
        return self._per_address[address] - 1 <= self.limits.connections_per_address

    def _evict(self, newest: CountedConnection, address: str, refusal: Refusal) -> bool:
        """Close the connection that has waited longest for a request, of this address if needed."""
        for each in self._waiting:
            if each is not newest and (refusal is _TOO_MANY or self._open.get(each) == address):
                each.drop()
                return True
        return False

    def wait_for_request(self, connection: CountedConnection) -> None:
        """Note that a connection has not sent a whole request yet."""
        self._waiting[connection] = None

    def end_wait(self, connection: CountedConnection) -> None:
        """Note that a request has arrived."""
        self._waiting.pop(connection, None)

    def release(self, connection: CountedConnection) -> None:
        """Forget a connection that is closed."""
        self._waiting.pop(connection, None)
        address = self._open.pop(connection, None)
        if address is not None:
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]


class GuardedProtocol(H11Protocol):
    """HTTP/1.1 on one connection, with a time limit for the headers of every request."""

    def __init__(self, *args: Any, guard: ConnectionGuard, **options: Any) -> None:
        super().__init__(*args, **options)
        self._guard = guard
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or refuse it if there are too many."""
        super().connection_made(transport)
        self.timeout_keep_alive = self._guard.limits.keep_alive_seconds
        _detect_dead_peer(transport)
        address = self.client[0] if self.client else ""
        refusal = self._guard.admit(self, address)
        if refusal is not None and self._guard.is_full():
            transport.write(refusal.to_http(retry_seconds=SHORT_WAIT_SECONDS))
            transport.close()
            return
        if refusal is not None:
            self.app = HealthOnly(self.app, refusal)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        if self._has_request:
            self._end_wait()
        else:
            self._await_request()

    def on_response_complete(self) -> None:
        """Let the idle connection make room for others until its next request."""
        super().on_response_complete()
        # A request that was sent along with the last one is running by now.
        if not self._has_request and not self.transport.is_closing():
            self._guard.wait_for_request(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._end_wait()
        self._guard.release(self)
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the connection at once, in favour of another."""
        self._end_wait()
        # Released now and not when the loop reports it: the place is needed at once.
        self._guard.release(self)
        self.transport.abort()

    @property
    def _has_request(self) -> bool:
        # uvicorn makes a cycle when all headers of a request have arrived.
        return bool(self.cycle) and not self.cycle.response_complete

    def _await_request(self) -> None:
        # Also between requests, from their first byte on: before it, the limit for idle connections
        # applies.
        if self._header_timer is None and not self.transport.is_closing():
            seconds = self._guard.limits.header_seconds
            self._header_timer = self.loop.call_later(seconds, self._time_out)
            self._guard.wait_for_request(self)

    def _end_wait(self) -> None:
        self._guard.end_wait(self)
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _time_out(self) -> None:
        self._end_wait()
        if not self.transport.is_closing():
            self.transport.write(_TOO_SLOW.to_http())
            self.transport.close()


class HealthOnly:
    """An application on a connection beyond the limit: it reports the health, nothing else."""

    def __init__(self, app: Any, refusal: Refusal) -> None:
        self._app: ASGIApp = app
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for the health, and refuse any other."""
        path = scope.get("path", "")
        if path == HEALTH_PATH or path.startswith(f"{HEALTH_PATH}/"):
            await self._app(scope, receive, send)
            return
        response = self._refusal.to_response(retry_seconds=SHORT_WAIT_SECONDS)
        await response(scope, receive, send)


def _detect_dead_peer(transport: asyncio.Transport) -> None:
    """Let the system close the connection of a peer that no longer answers."""
    peer = transport.get_extra_info("socket")
    if peer is None:
        return
    options = {
        "TCP_KEEPIDLE": _DEAD_PEER_SECONDS // 2,
        "TCP_KEEPINTVL": _DEAD_PEER_SECONDS // 6,
        "TCP_KEEPCNT": 3,
        # Also for a peer that lets data wait without ever reading it.
        "TCP_USER_TIMEOUT": _DEAD_PEER_SECONDS * 1_000,
    }
    with suppress(OSError):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options.items():
            if hasattr(socket, name):  # not every system has all of them
                peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
