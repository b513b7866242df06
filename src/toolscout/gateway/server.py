"""The gateway as an MCP server, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import uvicorn
from fastmcp.server.server import FastMCP
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from ..errors import ConfigError
from ..telemetry.otel import OpenTelemetry
from .client.auth import build_auth_provider, check_exposure, is_loopback
from .client.event_store import RETRY_MS, MemoryEventStore
from .client.passthrough import Passthrough
from .client.provider import InstructionsMiddleware, ViewProvider
from .client.stdio import StdinFeed, end_stdin_on_signals
from .client.tracing import TracingMiddleware
from .fastmcp_compat import GatewayServer, shorten_process_stop
from .gateway import Gateway
from .operations.health import add_routes
from .operations.reload import watch_config
from .setup import Setup

PATH = "/mcp"
HTTP_NOT_FOUND = 404
_BACKLOG = 2_048
# Clients keep streams open that never end by themselves. They are closed after this time.
_GRACEFUL_SHUTDOWN_SECONDS = 2


def build_server(
    gateway: Gateway,
    *,
    read_setup: Callable[[], Setup] | None = None,
    telemetry: OpenTelemetry | None = None,
) -> FastMCP[Any]:
    """An MCP server that starts and stops the gateway.

    `read_setup` rereads its configuration. `telemetry` traces the requests of clients, and is
    closed with the gateway; give it to the gateway as its sink too.
    """

    @asynccontextmanager
    async def lifespan(_: FastMCP[Any]) -> AsyncGenerator[None]:
        await gateway.start()
        watcher = asyncio.create_task(watch_config(gateway, read_setup)) if read_setup else None
        try:
            yield
        finally:
            # The watcher stops first, or it could start servers again while they are closed.
            if watcher is not None:
                watcher.cancel()
                await asyncio.gather(watcher, return_exceptions=True)
            with shorten_process_stop():
                await gateway.close()
            # Here and not after the server: uvicorn repeats a SIGTERM, which ends the process.
            if telemetry is not None:
                await asyncio.to_thread(telemetry.close)

    # Tokens are looked up on every request, so an edit of them takes effect at once.
    auth = build_auth_provider(
        gateway.setup.settings.auth, tokens=lambda: gateway.setup.settings.auth.tokens
    )
    app = GatewayServer(
        "toolscout",
        version=version("toolscout"),
        lifespan=lifespan,
        providers=[ViewProvider(gateway.clients)],
        # The first is the outermost.
        middleware=[
            *([TracingMiddleware(telemetry)] if telemetry else []),
            InstructionsMiddleware(gateway.clients),
        ],
        auth=auth,
        # Schemas are passed on as their servers wrote them, `$ref` included.
        dereference_schemas=False,
    )
    add_routes(app, gateway)
    gateway.clients.notifier.register(app)
    Passthrough(gateway, app).register()
    return app


async def serve_stdio(
    gateway: Gateway,
    *,
    read_setup: Callable[[], Setup] | None = None,
    telemetry: OpenTelemetry | None = None,
    feed: StdinFeed | None = None,
) -> None:
    """Serve one client over stdin and stdout, until it disconnects or a signal arrives."""
    with end_stdin_on_signals(feed):
        server = build_server(gateway, read_setup=read_setup, telemetry=telemetry)
        await server.run_stdio_async(show_banner=False)


async def serve_http(
    gateway: Gateway,
    listener: socket.socket,
    *,
    read_setup: Callable[[], Setup] | None = None,
    telemetry: OpenTelemetry | None = None,
) -> None:
    """Serve many clients over Streamable HTTP on a bound socket, until stopped."""
    options = gateway.setup.options
    host: str = listener.getsockname()[0]
    # On loopback there may be no authentication, so the Host header is checked: a web page could
    # otherwise reach the gateway by DNS rebinding. Any other address needs authentication, and the
    # names under which clients know it are not known here.
    hosts = list(options.allowed_hosts) or ([host] if is_loopback(host) else ["*"])
    with listener:
        check_exposure(host, gateway.setup.settings.auth)
        server = build_server(gateway, read_setup=read_setup, telemetry=telemetry)
        app = server.http_app(
            path=PATH,
            event_store=MemoryEventStore(),
            retry_interval=RETRY_MS,
            host_origin_protection=True,
            allowed_hosts=hosts,
            allowed_origins=list(options.allowed_origins),
        )
        app.add_exception_handler(HTTP_NOT_FOUND, _answer_unknown_path)
        config = uvicorn.Config(
            app,
            lifespan="on",
            ws="none",
            # No handlers of its own: the program decides how records are printed.
            log_config=None,
            log_level="warning",
            timeout_graceful_shutdown=_GRACEFUL_SHUTDOWN_SECONDS,
        )
        await _run_until_stopped(uvicorn.Server(config), listener)


def _answer_unknown_path(_: Request, __: Exception) -> Response:
    text = f"There is nothing at this path. MCP clients connect to {PATH}; / says more.\n"
    return PlainTextResponse(text, status_code=HTTP_NOT_FOUND)


async def _run_until_stopped(server: uvicorn.Server, listener: socket.socket) -> None:
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        # Shielded, so that a cancelled server can still close its connections and the gateway.
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on an address; raises an error with the reason if it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY on every connection. Without it, small
    # messages wait for one another (Nagle's algorithm).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # A restarted gateway gets its port back at once, while old connections are still closing.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Cannot serve on {host}:{port}: {error.strerror}.",
            hint="Write the address as HOST:PORT, as in --http 127.0.0.1:8765."
            if isinstance(error, socket.gaierror)
            else "Stop the program that uses the port, or choose another with --http HOST:PORT.",
        ) from error
    return listener
