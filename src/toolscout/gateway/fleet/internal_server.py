"""Serve the internal address beside the public one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from ..limits.request_limits import RequestGuard
from .internal_route import PASSED_ON

_GRACEFUL_SHUTDOWN_SECONDS = 1


class FleetGuard(RequestGuard):
    """The limits of requests; those that were passed on have been counted by the sender."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if PASSED_ON in scope:
            await self._app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class _InternalServer(uvicorn.Server):
    """A server that leaves signals to the one of the public address."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Do nothing."""
        yield


@asynccontextmanager
async def serve_internally(app: ASGIApp, listener: socket.socket) -> AsyncGenerator[None]:
    """Answer other gateways while the block runs."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        log_config=None,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_GRACEFUL_SHUTDOWN_SECONDS,
    )
    server = _InternalServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving
