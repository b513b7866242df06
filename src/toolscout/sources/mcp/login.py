"""Logging in to a server that asks for it: a person agrees in a browser, once."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
from fastmcp.client.oauth_callback import OAuthCallbackResult, create_oauth_callback_server
from mcp import MCPError
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from ...errors import SourceError
from ..http_client import is_local
from .connect_errors import explain_failure
from .connection import Connection
from .oauth_tokens import Grant
from .servers import Server

LOGIN_TIMEOUT_SECONDS = 300.0
# How a client says who it is when it asks for tokens: not at all, in a header, or in the form.
_PUBLIC = "none"
_BASIC = "client_secret_basic"
_POST = "client_secret_post"


async def log_in(
    server: Server, *, show: Callable[[str], None], patience_seconds: float = LOGIN_TIMEOUT_SECONDS
) -> Grant:
    """Log in to a server; `show` brings a person to the address where it is agreed to."""
    with _open_listener(server) as listener:
        visit = _LoginFlow(server, listener, show)
        connection = Connection(server, protocol=server.protocol, auth=visit.provider)
        try:
            await connection.wait_until_open(patience_seconds)
            return visit.build_grant()
        except TimeoutError as error:
            raise _login_error(
                server, f"nobody agreed within {patience_seconds:g} seconds."
            ) from error
        except OAuthFlowError as error:
            raise _login_error(server, server.redact(str(error))) from error
        except (httpx2.HTTPError, MCPError, OSError, RuntimeError, ValueError) as error:
            raise _login_error(server, explain_failure(error, connection, server)) from error
        finally:
            await connection.close()
            await visit.close()


class _LoginFlow:
    """One login: where the browser comes back to, and what is given there.

    It is the storage that the SDK wants for what it is given.
    """

    def __init__(
        self, server: Server, listener: socket.socket, show: Callable[[str], None]
    ) -> None:
        back = AnyUrl(f"http://localhost:{listener.getsockname()[1]}/callback")
        metadata = OAuthClientMetadata(
            client_name="Toolscout",
            redirect_uris=[back],
            grant_types=["authorization_code", "refresh_token"],
            token_endpoint_auth_method=_PUBLIC,
        )
        self.provider = OAuthClientProvider(
            server.url, metadata, self, self._show_login, self._wait_for_callback
        )
        self._server = server
        self._listener = listener
        self._show = show
        self._tokens: OAuthToken | None = None
        self._client = _client_registration(server, back)
        self._came = OAuthCallbackResult()
        self._has_come = anyio.Event()
        self._page = create_oauth_callback_server(
            listener.getsockname()[1],
            server_url=server.location,
            result_container=self._came,
            result_ready=self._has_come,
        )
        self._serving: asyncio.Task[None] | None = None

    async def get_tokens(self) -> OAuthToken | None:
        """None before the login."""
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Take the tokens."""
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Who we are to the server, if somebody has registered us before."""
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Take what we were registered as."""
        self._client = client_info

    def build_grant(self) -> Grant:
        """What the login gave."""
        tokens, client, context = self._tokens, self._client, self.provider.context
        if tokens is None or client is None:
            raise _login_error(self._server, "it did not ask for a login: it works without one.")
        found = context.oauth_metadata
        base = context.get_authorization_base_url(self._server.url)
        endpoint = str(found.token_endpoint) if found else urljoin(base, "/token")
        if urlsplit(endpoint).scheme != "https" and not is_local(endpoint):
            raise _login_error(
                self._server, f"it would have tokens renewed in the clear at {endpoint}."
            )
        lasts = tokens.expires_in
        return Grant(
            url=self._server.url,
            token_endpoint=endpoint,
            client_id=client.client_id,
            client_secret=client.client_secret or "",
            sends_secret_in_header=client.token_endpoint_auth_method == _BASIC,
            resource=context.get_resource_url() if context.protected_resource_metadata else "",
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token or "",
            expires_at=None if lasts is None else time.time() + lasts,
        )

    async def close(self) -> None:
        """Stop waiting for the browser."""
        if self._serving is not None:
            self._page.should_exit = True
            with suppress(asyncio.CancelledError):
                await self._serving

    async def _show_login(self, url: str) -> None:
        self._serving = asyncio.create_task(self._page.serve(sockets=[self._listener]))
        self._show(url)

    async def _wait_for_callback(self) -> AuthorizationCodeResult:
        await self._has_come.wait()
        if self._came.error is not None:
            raise OAuthFlowError(str(self._came.error))
        return AuthorizationCodeResult(
            code=self._came.code or "", state=self._came.state, iss=self._came.iss
        )


def _client_registration(server: Server, back: AnyUrl) -> OAuthClientInformationFull | None:
    """Who the configuration says we are, for servers that register nobody by themselves."""
    if not server.oauth.client_id:
        return None
    return OAuthClientInformationFull(
        client_id=server.oauth.client_id,
        client_secret=server.oauth.client_secret or None,
        redirect_uris=[back],
        token_endpoint_auth_method=_POST if server.oauth.client_secret else _PUBLIC,
    )


def _open_listener(server: Server) -> socket.socket:
    """Where the browser will come back to; servers that know us beforehand know the port, too."""
    listener = socket.socket()
    try:
        listener.bind(("127.0.0.1", server.oauth.callback_port))
    except OSError as error:
        listener.close()
        port = server.oauth.callback_port
        raise _login_error(server, f"port {port} is in use; free it and try again.") from error
    return listener


def _login_error(server: Server, why: str) -> SourceError:
    return SourceError(f"Cannot log in to {server.name!r}: {why}")
