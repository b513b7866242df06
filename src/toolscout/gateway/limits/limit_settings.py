"""The `[limits]` table: how much clients may ask of a gateway over HTTP."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class LimitSettings(BaseModel):
    """The `[limits]` table; 0 means no limit where it is allowed."""

    # An unknown key is an error: a typo would leave the gateway without the limit.
    model_config = ConfigDict(frozen=True, extra="forbid")

    connections: int = Field(default=2_000, ge=1)
    """Open connections in all."""

    connections_per_address: int = Field(default=1_000, ge=1)
    """Open connections from one address."""

    header_seconds: float = Field(default=10.0, gt=0)
    """Time for the headers of a request to arrive."""

    # Clients close idle connections after 5 seconds or more (httpx). A server that closes first, or
    # at the same moment, makes requests fail that are just being sent.
    keep_alive_seconds: float = Field(default=60.0, gt=0)
    """How long a connection without a request is kept."""

    request_bytes: int = Field(default=4 * 1024 * 1024, ge=1)
    """Size of the body of a request."""

    request_seconds: float = Field(default=30.0, gt=0)
    """Time for the body of a request to arrive."""

    request_buffer_bytes: int = Field(default=256 * 1024 * 1024, ge=1)
    """Size of all bodies together that have not arrived as a whole."""

    sessions: int = Field(default=2_000, ge=1)
    """Sessions of the protocol in all, for clients of the handshake versions."""

    sessions_per_principal: int = Field(default=200, ge=1)
    """Sessions of one authenticated principal."""

    session_idle_seconds: float = Field(default=1_800.0, gt=0)
    """How long a session without requests and without an open stream is kept."""

    streams: int = Field(default=1_000, ge=1)
    """Open streams of `subscriptions/listen` in all, for stateless clients."""

    streams_per_principal: int = Field(default=200, ge=1)
    """Open streams of one authenticated principal."""

    calls: int = Field(default=256, ge=1)
    """Calls and other requests that run at a time, in all."""

    calls_per_principal: int = Field(default=64, ge=1)
    """Calls and other requests of one authenticated principal that run at a time."""

    calls_per_minute: float = Field(default=6_000.0, ge=0)
    """Calls and other requests of one authenticated principal per minute."""

    notifications_per_minute: float = Field(default=6_000.0, ge=0)
    """Notifications, pings and other messages beside requests, of one principal per minute."""
