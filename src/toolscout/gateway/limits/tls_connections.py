"""TLS on one connection: the handshake counts against the limits, as a slow request does."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Protocol

from .connection_limits import ConnectionGuard, GuardedProtocol

# How long a peer may take to agree to the end of a connection.
_SHUTDOWN_SECONDS = 2.0


class ContextSource(Protocol):
    """Has the certificate for the next connection."""

    def get_context(self) -> ssl.SSLContext:
        """The certificate, as a context."""
        ...


class TLSProtocol(asyncio.Protocol):
    """Counts a connection from its first byte, then hands it to the HTTP protocol.

    asyncio's own TLS tells a protocol of a connection only after the handshake, so sockets that
    never finish one would not be counted, nor closed for a minute.
    """

    def __init__(
        self,
        *args: Any,
        guard: ConnectionGuard,
        certificate: ContextSource,
        create_inner: Callable[..., GuardedProtocol],
        **options: Any,
    ) -> None:
        self._create_inner = lambda: create_inner(*args, **options)
        self._guard = guard
        self._certificate = certificate
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        # A client may send its request together with the end of its handshake.
        self._early = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, and begin the handshake."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.pause_reading()  # what arrives belongs to the handshake
        peer = transport.get_extra_info("peername")
        self._guard.admit(self, peer[0] if peer else "")
        if self._guard.is_full():
            self.drop()  # before the handshake there is no way to say why
            return
        self._guard.wait_for_request(self)
        self._task = asyncio.get_running_loop().create_task(self._shake_hands(transport))

    def data_received(self, data: bytes) -> None:
        """Keep what arrives before the HTTP protocol takes over."""
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        del exc
        self._guard.release(self)

    def drop(self) -> None:
        """Close the connection at once, in favour of another."""
        self._guard.release(self)
        if self._transport is not None:
            self._transport.abort()

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        try:
            secure = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                self._certificate.get_context(),
                server_side=True,
                ssl_handshake_timeout=self._guard.limits.header_seconds,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
            )
        except (OSError, RuntimeError):  # no TLS, too slow, or gone; an SSLError is an OSError
            self.drop()
            return
        self._guard.release(self)
        if secure is None or secure.is_closing():
            transport.abort()
            return
        inner = self._create_inner()
        secure.set_protocol(inner)
        inner.connection_made(secure)
        if self._early and not secure.is_closing():
            inner.data_received(bytes(self._early))
