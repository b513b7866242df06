"""The gateway as an MCP server, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any, cast

import uvicorn
from fastmcp.server.server import FastMCP
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ..store.factory import is_store_shared
from ..store.rate_limits import RateLimit
from ..telemetry.otel import OpenTelemetry
from .client.auth import build_auth_provider, build_issuer, check_exposure, is_loopback
from .client.connect_pages import TICKET_COOKIE, TICKET_FIELD, add_connect_pages
from .client.event_store import RETRY_MS, MemoryEventStore
from .client.passthrough import Passthrough
from .client.provider import InstructionsMiddleware, ViewProvider
from .client.refusals import ExplainedRefusals
from .client.sessions import current_identity
from .client.stdio import StdinFeed, end_stdin_on_signals
from .client.tracing import TracingMiddleware
from .fastmcp_compat import GatewayServer, has_open_session, shorten_process_stop
from .fleet.internal_route import InternalRoute
from .fleet.internal_server import FleetGuard, serve_internally
from .fleet.owner_client import OwnerClient
from .fleet.page_routing import PageRouter, PageRules
from .fleet.replicas import ReplicaRegistry
from .fleet.routing import ReplicaRouter, split_session_id
from .fleet.shared_events import SharedEvents
from .fleet.stream_recovery import RecoveryRules, StreamRecovery
from .gateway import Gateway
from .identity.browser_login import BrowserLogin
from .identity.challenges import ExplainedChallenges
from .identity.login_pages import add_login_routes, build_openid_login
from .identity.page_callers import PageCallers
from .limits.call_limits import CallLimits
from .limits.connection_limits import ConnectionGuard, GuardedProtocol, raise_file_limit
from .limits.limit_settings import LimitSettings
from .limits.refusals import Refusal
from .limits.refused_requests import describe_refusal
from .limits.request_limits import PermitMiddleware, RequestLimits
from .limits.session_limits import SessionLimits
from .limits.stream_limits import StreamLimits
from .limits.tls_connections import TLSProtocol
from .operations.health import LIVENESS_PATH, add_routes
from .operations.index_page import BrowserPage
from .operations.reload import watch_config
from .public_server import ACCEPT_BATCH, PublicServer
from .settings import Auth
from .setup import Setup
from .sockets import bind_internal_socket
from .tls import load_certificate
from .upstream.principal_logins import LOGIN_PATH as CONNECT_PATH

PATH = "/mcp"
CONSOLE_PATH = "/console"
HTTP_NOT_FOUND = 404
# Clients keep streams open that never end by themselves. They are closed after this time.
_GRACEFUL_SHUTDOWN_SECONDS = 2

BuildRoutes = Callable[[Gateway, PageCallers], Sequence[Route]]
"""The pages of a layer above, for the callers that the gateway knows."""


def build_server(
    gateway: Gateway,
    *,
    read_setup: Callable[[], Setup] | None = None,
    telemetry: OpenTelemetry | None = None,
    calls: CallLimits | None = None,
    login: BrowserLogin | None = None,
    build_console: BuildRoutes | None = None,
) -> FastMCP[Any]:
    """An MCP server that starts and stops the gateway.

    `read_setup` rereads its configuration. `telemetry` traces the requests of clients, and is
    closed with the gateway; give it to the gateway as its sink too. `calls` limits the calls.
    `login` has the one-time links for browsers. `build_console` has the web console.
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

    def read_auth() -> Auth:
        return gateway.setup.settings.auth

    issuer = build_issuer(read_auth())
    # Tokens are looked up on every request, so an edit of them takes effect at once.
    auth = build_auth_provider(read_auth(), tokens=lambda: read_auth().tokens, issuer=issuer)
    app = GatewayServer(
        "toolscout",
        version=version("toolscout"),
        lifespan=lifespan,
        providers=[ViewProvider(gateway.clients)],
        # The first is the outermost.
        middleware=[
            *([TracingMiddleware(telemetry)] if telemetry else []),
            PermitMiddleware(
                calls or build_call_limits(gateway), on_refusal=partial(record_refusal, gateway)
            ),
            InstructionsMiddleware(gateway.clients),
        ],
        auth=auth,
        request_state_security=gateway.state_security,
        # Schemas are passed on as their servers wrote them, `$ref` included.
        dereference_schemas=False,
    )
    login = login or BrowserLogin.create(read_auth())
    callers = PageCallers(auth, read_auth, login.cookies)
    add_routes(app, gateway, callers, console_path=CONSOLE_PATH if build_console else "")
    for route in build_console(gateway, callers) if build_console else ():
        app.custom_route(route.path, sorted(route.methods or ()))(route.endpoint)
    add_login_routes(app, login, build_openid_login(read_auth, issuer))
    add_connect_pages(app, gateway.upstream.logins, public_url=lambda: gateway.setup.public_url)
    passthrough = Passthrough(gateway, app)
    passthrough.register()
    gateway.clients.notifier.register(app, passthrough.watch_resources)
    return app


def build_call_limits(gateway: Gateway) -> CallLimits:
    """The limits on calls, which follow edits of the configuration."""
    rates = RateLimit(gateway.buckets, clock=time.monotonic)
    return CallLimits(lambda: gateway.setup.settings.limits, rates=rates)


def record_refusal(
    gateway: Gateway, refusal: Refusal, *, method: str, params: Mapping[str, Any], principal: str
) -> None:
    """Record a request that is over a limit in the journal and the audit log."""
    dispatcher = gateway.box.profile.tool_for("call")
    gateway.refusals.record(
        describe_refusal(
            refusal,
            method=method,
            params=params,
            principal=principal,
            dispatcher=dispatcher.name if dispatcher else "",
        )
    )


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
    login: BrowserLogin | None = None,
    build_console: BuildRoutes | None = None,
) -> None:
    """Serve many clients over Streamable HTTP on a bound socket, until stopped.

    With a TLS certificate in the configuration, over HTTPS.
    """
    options = gateway.setup.options
    host: str = listener.getsockname()[0]
    # On loopback there may be no authentication, so the Host header is checked: a web page could
    # otherwise reach the gateway by DNS rebinding. Any other address needs authentication, and the
    # names under which clients know it are not known here.
    hosts = list(options.allowed_hosts) or ([host] if is_loopback(host) else ["*"])
    with listener:
        check_exposure(host, gateway.setup.settings.auth)
        calls = build_call_limits(gateway)
        certificate = load_certificate(gateway.setup.tls_files)
        server = build_server(
            gateway,
            read_setup=read_setup,
            telemetry=telemetry,
            calls=calls,
            login=login,
            build_console=build_console,
        )

        def is_open(session_id: str) -> bool:
            return has_open_session(app, PATH, split_session_id(session_id)[0])

        limits = _build_request_limits(gateway, calls, is_open)
        shared = gateway.fleet.events if gateway.fleet else None
        events = MemoryEventStore(on_event=shared.add if shared else None)
        internal = _bind_internal(gateway, host) if gateway.fleet else None
        registry = gateway.fleet.listen_at(internal) if gateway.fleet and internal else None
        app: Starlette = server.http_app(
            path=PATH,
            middleware=[
                Middleware(BrowserPage, needs_token=lambda: server.auth is not None),
                Middleware(FleetGuard, limits),
                *(_build_routers(gateway, registry) if registry else ()),
                *(_build_recovery(gateway, shared, events, is_open) if shared else ()),
            ],
            session_idle_timeout=gateway.setup.settings.limits.session_idle_seconds,
            event_store=events,
            retry_interval=RETRY_MS,
            host_origin_protection=True,
            allowed_hosts=hosts,
            allowed_origins=list(options.allowed_origins),
        )
        app.add_exception_handler(HTTP_NOT_FOUND, _answer_unknown_path)
        guard = ConnectionGuard(lambda: gateway.setup.settings.limits, max_files=raise_file_limit())
        protocol = partial(GuardedProtocol, guard=guard)
        if certificate is not None:
            protocol = partial(
                TLSProtocol, guard=guard, certificate=certificate, create_inner=protocol
            )
        config = uvicorn.Config(
            ExplainedChallenges(ExplainedRefusals(app)),
            # uvicorn calls it as it would call the class.
            http=cast("type[asyncio.Protocol]", protocol),
            backlog=ACCEPT_BATCH,
            lifespan="on",
            ws="none",
            # No handlers of its own: the program decides how records are printed.
            log_config=None,
            log_level="warning",
            timeout_graceful_shutdown=_GRACEFUL_SHUTDOWN_SECONDS,
        )
        async with AsyncExitStack() as stack:
            if gateway.fleet and internal:
                route = InternalRoute(
                    app, replica=gateway.fleet.replica, codec=gateway.fleet.internal
                )
                await stack.enter_async_context(serve_internally(route, internal))
            await PublicServer(config, worker=gateway.worker).run_until_stopped(listener)


def _build_request_limits(
    gateway: Gateway, calls: CallLimits, is_open: Callable[[str], bool]
) -> RequestLimits:
    def read_limits() -> LimitSettings:
        return gateway.setup.settings.limits

    return RequestLimits(
        path=PATH,
        settings=read_limits,
        calls=calls,
        sessions=SessionLimits(read_limits, is_open=is_open),
        streams=StreamLimits(read_limits),
        needs_login=lambda: gateway.setup.settings.auth.is_set,
        principal=lambda: current_identity(gateway.setup.settings.auth).name,
        on_refusal=partial(record_refusal, gateway),
    )


def _bind_internal(gateway: Gateway, host: str) -> socket.socket:
    """A socket for the gateways that share the store with this one."""
    return bind_internal_socket(
        host,
        gateway.setup.options.internal_address,
        worker=gateway.worker.number if gateway.worker else 0,
        is_local=not is_store_shared(gateway.setup.config),
    )


def _build_routers(gateway: Gateway, registry: ReplicaRegistry) -> tuple[Middleware, ...]:
    """Pass requests on to the gateways that they belong to: those of clients, and of browsers."""
    fleet = gateway.fleet
    assert fleet is not None
    owners = OwnerClient(registry, fleet.client)
    rules = PageRules(
        lead=gateway.worker.lead if gateway.worker else "",
        local_paths=frozenset({PATH, LIVENESS_PATH}),
        tickets_path=CONNECT_PATH,
        ticket_field=TICKET_FIELD,
        ticket_cookie=TICKET_COOKIE,
    )
    return (
        Middleware(
            ReplicaRouter,
            path=PATH,
            owners=owners,
            states=fleet.states,
            is_refused=partial(_is_refused, gateway),
        ),
        Middleware(PageRouter, rules=rules, owners=owners),
    )


def _build_recovery(
    gateway: Gateway, shared: SharedEvents, events: MemoryEventStore, is_open: Callable[[str], bool]
) -> tuple[Middleware, ...]:
    """Resume streams of gateways that have ended."""
    rules = RecoveryRules(
        path=PATH,
        is_open=is_open,
        is_local=events.has_stream,
        is_refused=partial(_is_refused, gateway),
        principal=lambda: current_identity(gateway.setup.settings.auth).name,
    )
    return (Middleware(StreamRecovery, events=shared, rules=rules),)


def _is_refused(gateway: Gateway) -> bool:
    """Whether the request that is answered has no valid login, though it needs one."""
    auth = gateway.setup.settings.auth
    return auth.is_set and not current_identity(auth).name


def _answer_unknown_path(_: Request, __: Exception) -> Response:
    text = f"There is nothing at this path. MCP clients connect to {PATH}; / says more.\n"
    return PlainTextResponse(text, status_code=HTTP_NOT_FOUND)
