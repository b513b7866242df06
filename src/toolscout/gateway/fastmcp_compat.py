"""Access to private parts of FastMCP and the MCP SDK, all of it in this module.

Written for FastMCP 4.1 and MCP SDK 2.3, whose public interfaces offer none of this. Check every
function here when one of the two is upgraded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

from fastmcp.server.server import FastMCP
from mcp.client import stdio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from starlette.applications import Starlette
from starlette.routing import Route

from ..sources.mcp.stdio_transport import STOP_TIMES

RequestContext = ServerRequestContext[Any, Any]
RequestHandler = Callable[[RequestContext, Any], Awaitable[Any]]

# Seconds for a server process to end after its stdin closes, and then after SIGTERM. The SDK gives
# two seconds for each. A process that still runs then is killed.
_PROCESS_STOP_SECONDS = (0.5, 0.3)


class EmptyStateStore:
    """A session state store that holds nothing: the gateway keeps its own sessions."""

    async def get(self, key: str) -> None:
        """Nothing is stored under any key."""


class GatewayServer(FastMCP[Any]):
    """FastMCP without its session state store.

    FastMCP 4.1 reads the store on every call, to learn whether the client has hidden tools from
    itself. The library behind the default store takes a third of a second to import, which every
    start of the gateway would pay. The constructor's `session_state_store` does not help: it is
    wrapped by the same library.
    """

    _state_store: Any = EmptyStateStore()


def add_request_handler(
    app: FastMCP[Any], method: str, params_type: type[Any], handler: RequestHandler
) -> None:
    """Answer a protocol request directly, before FastMCP sees it.

    FastMCP 4.1 rebuilds prompts and resources from its own objects, so what an upstream sent
    would not arrive unchanged, and it does not serve `subscriptions/listen` at all. The SDK's
    server, which takes raw handlers, is private there.
    """
    server = app._mcp_server  # pyright: ignore[reportPrivateUsage] -- see the docstring
    server.add_request_handler(method, params_type, handler)


def get_connection(session: ServerSession) -> Connection:
    """The client's connection, the same object for all requests of that client.

    MCP SDK 2.3 makes a session for each request and has no public way to the connection under it.
    The connection can be held weakly and outlives the request; a session keeps its request alive.
    """
    return session._connection  # pyright: ignore[reportPrivateUsage] -- see the docstring


def has_open_session(app: Starlette, path: str, session_id: str) -> bool:
    """Whether a session of the protocol still exists at the path of the MCP endpoint.

    MCP SDK 2.3 keeps its sessions in a private dictionary and tells nobody when one ends.
    """
    for route in app.routes:
        if isinstance(route, Route) and route.path == path:
            # With authentication, the endpoint is wrapped in a middleware.
            endpoint: Any = getattr(route.endpoint, "app", route.endpoint)
            manager: Any = endpoint.session_manager
            return manager is not None and session_id in manager._server_instances
    return False


@contextmanager
def shorten_process_stop() -> Generator[None]:
    """Give server processes less time to end than the SDK does, because the user waits for it.

    MCP SDK 2.3 reads both limits from module constants and takes no parameter for them. It starts
    the processes on Windows.
    """
    own, STOP_TIMES.seconds = STOP_TIMES.seconds, _PROCESS_STOP_SECONDS
    defaults = (stdio.PROCESS_TERMINATION_TIMEOUT, stdio.FORCE_KILL_TIMEOUT)
    stdio.PROCESS_TERMINATION_TIMEOUT, stdio.FORCE_KILL_TIMEOUT = _PROCESS_STOP_SECONDS
    try:
        yield
    finally:
        stdio.PROCESS_TERMINATION_TIMEOUT, stdio.FORCE_KILL_TIMEOUT = defaults
        STOP_TIMES.seconds = own
