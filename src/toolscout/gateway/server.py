"""The gateway as an MCP server, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from typing import Any

import uvicorn
from fastmcp.server.server import FastMCP
from mcp.client import stdio
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from ..errors import ConfigError
from .client.auth import build_auth_provider, check_exposure, is_loopback
from .client.event_store import RETRY_MS, MemoryEventStore
from .client.passthrough import Passthrough
from .client.provider import InstructionsMiddleware, ViewProvider
from .client.stdio import end_stdin_on_signals
from .gateway import Gateway
from .operations import health as status
from .operations.reload import watch_config
from .setup import Setup

PATH = "/mcp"
_BACKLOG = 2_048
_GRACEFUL_SHUTDOWN_SECONDS = 2
# To end when their stdin does, and then when they are told to; who is left is killed.
_PROCESS_STOP_SECONDS = (0.5, 0.3)
_UNAVAILABLE = 503
_UNAUTHORISED = 401


class EmptyStateStore:
    """FastMCP's memory of its sessions, always empty: the gateway has its own.

    FastMCP asks it on every call whether a client has hidden tools from itself. The library that
    it would load for that takes a third of a second.
    """

    async def get(self, key: str) -> None:
        """Nothing."""


class GatewayServer(FastMCP[Any]):
    """FastMCP without what a gateway has no use for."""

    _state_store: Any = EmptyStateStore()


def build_server(gateway: Gateway, *, again: Callable[[], Setup] | None = None) -> FastMCP[Any]:
    """The gateway as an MCP server, which starts and stops it; `again` reads it anew."""

    @asynccontextmanager
    async def lifespan(_: FastMCP[Any]) -> AsyncGenerator[None]:
        await gateway.start()
        watcher = asyncio.create_task(watch_config(gateway, again)) if again else None
        try:
            yield
        finally:
            if watcher is not None:
                watcher.cancel()
                await asyncio.gather(watcher, return_exceptions=True)
            with _shorten_process_stop():
                await gateway.close()

    auth = build_auth_provider(
        gateway.setup.settings.auth, tokens=lambda: gateway.setup.settings.auth.tokens
    )
    app = GatewayServer(
        "toolscout",
        version=version("toolscout"),
        lifespan=lifespan,
        providers=[ViewProvider(gateway)],
        middleware=[InstructionsMiddleware(gateway)],
        auth=auth,
        dereference_schemas=False,
    )
    _add_routes(app, gateway)
    gateway.announcer.register(app)
    if gateway.setup.shows_everything:
        Passthrough(gateway, app).register()
    return app


@contextmanager
def _shorten_process_stop() -> Generator[None]:
    """Give servers less time to end than the SDK does: whoever stops the gateway waits for them."""
    usual = (stdio.PROCESS_TERMINATION_TIMEOUT, stdio.FORCE_KILL_TIMEOUT)
    stdio.PROCESS_TERMINATION_TIMEOUT, stdio.FORCE_KILL_TIMEOUT = _PROCESS_STOP_SECONDS
    try:
        yield
    finally:
        stdio.PROCESS_TERMINATION_TIMEOUT, stdio.FORCE_KILL_TIMEOUT = usual


def _add_routes(app: FastMCP[Any], gateway: Gateway) -> None:
    async def is_authenticated(request: Request) -> bool:
        if app.auth is None:
            return True
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and await app.auth.verify_token(token) is not None

    @app.custom_route("/health", ["GET"])
    async def get_health(request: Request) -> Response:
        report = status.health_report(gateway)
        report["parts"] = (await gateway.box.health()).to_dict()["parts"]
        if not await is_authenticated(request):
            report = {key: report[key] for key in ("status", "live", "ready")}
        return JSONResponse(report, status_code=200 if report["ready"] else _UNAVAILABLE)

    @app.custom_route("/health/live", ["GET"])
    async def get_liveness(_: Request) -> Response:
        return PlainTextResponse("live")

    @app.custom_route("/metrics", ["GET"])
    async def get_metrics(request: Request) -> Response:
        if not await is_authenticated(request):
            return PlainTextResponse("Say who you are.", status_code=_UNAUTHORISED)
        return PlainTextResponse(status.render_metrics(gateway))

    _ = (get_health, get_liveness, get_metrics)


async def serve_stdio(gateway: Gateway, *, again: Callable[[], Setup] | None = None) -> None:
    """Serve one client over stdin and stdout, until it goes or the process is told to stop."""
    with end_stdin_on_signals():
        await build_server(gateway, again=again).run_stdio_async(
            show_banner=False, log_level="WARNING"
        )


async def serve_http(
    gateway: Gateway, listener: socket.socket, *, again: Callable[[], Setup] | None = None
) -> None:
    """Serve many clients over Streamable HTTP on a bound socket, until stopped."""
    options = gateway.setup.options
    host: str = listener.getsockname()[0]
    hosts = list(options.allowed_hosts) or ([host] if is_loopback(host) else ["*"])
    with listener:
        check_exposure(host, gateway.setup.settings.auth)
        app = build_server(gateway, again=again).http_app(
            path=PATH,
            event_store=MemoryEventStore(),
            retry_interval=RETRY_MS,
            host_origin_protection=True,
            allowed_hosts=hosts,
            allowed_origins=list(options.allowed_origins),
        )
        config = uvicorn.Config(
            app,
            lifespan="on",
            ws="none",
            log_level="warning",
            timeout_graceful_shutdown=_GRACEFUL_SHUTDOWN_SECONDS,
        )
        await _run_until_stopped(uvicorn.Server(config), listener)


async def _run_until_stopped(server: uvicorn.Server, listener: socket.socket) -> None:
    """Serve to the end; one that is stopped lets go of its clients and of the socket first."""
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on that address, or the reason why not."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, since only then are the connections sent without delay.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Cannot serve on {host}:{port}: {error.strerror}.",
            hint="Stop what uses the port, or choose another with --http HOST:PORT.",
        ) from error
    return listener
