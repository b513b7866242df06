"""OAuth login to an MCP server: authorization code flow in the user's browser."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol
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

from ...errors import ConfigError, SourceError
from ..http_client import is_local
from .connect_errors import explain_failure
from .connection import Connection
from .oauth_tokens import Grant
from .servers import Server

LOGIN_TIMEOUT_SECONDS = 300.0
# How a client authenticates at the token endpoint: not at all, in a header, or in the form.
_PUBLIC = "none"
_BASIC = "client_secret_basic"
_POST = "client_secret_post"


class LoginCallback(Protocol):
    """Where the browser returns to after the user gave consent."""

    @property
    def url(self) -> str:
        """The redirect address."""
        ...

    async def send_user(self, url: str) -> None:
        """Send the user to the page where they give consent."""
        ...

    async def wait(self) -> AuthorizationCodeResult:
        """What the browser brought back."""
        ...


def check_login_target(server: Server) -> None:
    """Raise if a server cannot be logged in to, with what to do instead."""
    if server.problem:
        raise ConfigError(server.problem)
    if not server.url:
        raise ConfigError(
            f"Server {server.name!r} is a local command: pass its credentials in env."
        )
    if server.has_authorization:
        raise ConfigError(
            f"Server {server.name!r} has an Authorization header, which is sent instead of a"
            " login.",
            hint="Remove it from the headers first.",
        )


async def log_in(
    server: Server,
    *,
    show_url: Callable[[str], None],
    principal: str = "",
    timeout_seconds: float = LOGIN_TIMEOUT_SECONDS,
) -> Grant:
    """Log in to a server; `show_url` sends the user to the page where they give consent."""
    with _open_listener(server) as listener:
        callback = _LocalCallback(server, listener, show_url)
        try:
            return await log_in_through(
                server, callback, principal=principal, timeout_seconds=timeout_seconds
            )
        finally:
            await callback.close()


async def log_in_through(
    server: Server,
    callback: LoginCallback,
    *,
    principal: str = "",
    timeout_seconds: float = LOGIN_TIMEOUT_SECONDS,
) -> Grant:
    """Log in to a server for a principal, with a page that the caller serves."""
    flow = _LoginFlow(server, callback)
    # The login happens while the session opens: the SDK starts it at the first 401.
    connection = Connection(server, protocol=server.protocol, auth=flow.provider)
    try:
        await connection.wait_until_open(timeout_seconds)
        return flow.build_grant(principal)
    except TimeoutError as error:
        raise _login_error(
            server, f"no one gave consent within {timeout_seconds:g} seconds."
        ) from error
    except OAuthFlowError as error:
        raise _login_error(server, server.redact(str(error))) from error
    except (httpx2.HTTPError, MCPError, OSError, RuntimeError, ValueError) as error:
        raise _login_error(server, explain_failure(error, connection, server).reason) from error
    finally:
        await connection.close()


class _LocalCallback:
    """A page on a port of this machine, for the time of one login."""

    def __init__(
        self, server: Server, listener: socket.socket, show_url: Callable[[str], None]
    ) -> None:
        port = listener.getsockname()[1]
        self.url = f"http://localhost:{port}/callback"
        self._listener = listener
        self._show_url = show_url
        self._result = OAuthCallbackResult()
        self._has_result = anyio.Event()
        self._page = create_oauth_callback_server(
            port,
            server_url=server.location,
            result_container=self._result,
            result_ready=self._has_result,
        )
        self._serving: asyncio.Task[None] | None = None

    async def send_user(self, url: str) -> None:
        """Serve the page, and show the address that leads to it."""
        self._serving = asyncio.create_task(self._page.serve(sockets=[self._listener]))
        self._show_url(url)

    async def wait(self) -> AuthorizationCodeResult:
        """What the browser brought to the page."""
        await self._has_result.wait()
        if self._result.error is not None:
            raise OAuthFlowError(str(self._result.error))
        return AuthorizationCodeResult(
            code=self._result.code or "", state=self._result.state, iss=self._result.iss
        )

    async def close(self) -> None:
        """Stop serving the page."""
        if self._serving is not None:
            self._page.should_exit = True
            with suppress(asyncio.CancelledError):
                await self._serving


class _LoginFlow:
    """One login, which collects the tokens; it is also the token storage that the SDK asks for."""

    def __init__(self, server: Server, callback: LoginCallback) -> None:
        callback_url = AnyUrl(callback.url)
        metadata = OAuthClientMetadata(
            client_name="Toolscout",
            redirect_uris=[callback_url],
            grant_types=["authorization_code", "refresh_token"],
            token_endpoint_auth_method=_PUBLIC,
        )
        self.provider = OAuthClientProvider(
            server.url, metadata, self, callback.send_user, callback.wait
        )
        self._server = server
        self._tokens: OAuthToken | None = None
        self._client = _client_registration(server, callback_url)

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens; none before the login."""
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store the tokens."""
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Our registration at the authorization server, if there is one."""
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store our registration."""
        self._client = client_info

    def build_grant(self, principal: str) -> Grant:
        """The grant that the login gave to a principal."""
        tokens, client, context = self._tokens, self._client, self.provider.context
        if tokens is None or client is None:
            raise _login_error(self._server, "it does not require a login.")
        metadata = context.oauth_metadata
        base = context.get_authorization_base_url(self._server.url)
        # Without metadata, MCP 2025-03-26 puts the endpoint at a fixed path.
        endpoint = str(metadata.token_endpoint) if metadata else urljoin(base, "/token")
        # The server chose this URL, and each renewal sends the refresh token to it.
        if urlsplit(endpoint).scheme != "https" and not is_local(endpoint):
            raise _login_error(self._server, f"its token endpoint {endpoint} does not use HTTPS.")
        lifetime = tokens.expires_in
        return Grant(
            url=self._server.url,
            principal=principal,
            token_endpoint=endpoint,
            client_id=client.client_id,
            client_secret=client.client_secret or "",
            sends_secret_in_header=client.token_endpoint_auth_method == _BASIC,
            resource=context.get_resource_url() if context.protected_resource_metadata else "",
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token or "",
            expires_at=None if lifetime is None else time.time() + lifetime,
        )


def _client_registration(server: Server, callback_url: AnyUrl) -> OAuthClientInformationFull | None:
    """Our configured registration, for servers without dynamic client registration."""
    if not server.oauth.client_id:
        return None
    return OAuthClientInformationFull(
        client_id=server.oauth.client_id,
        client_secret=server.oauth.client_secret or None,
        redirect_uris=[callback_url],
        token_endpoint_auth_method=_POST if server.oauth.client_secret else _PUBLIC,
    )


def _open_listener(server: Server) -> socket.socket:
    """Bind the port that the browser returns to."""
    # A configured client was registered with its redirect address, so its port is fixed. Otherwise
    # it is 0, and the system picks a free port before the address is sent anywhere.
    listener = socket.socket()
    try:
        listener.bind(("127.0.0.1", server.oauth.callback_port))
    except OSError as error:
        listener.close()
        port = server.oauth.callback_port
        raise _login_error(server, f"port {port} is in use; free it and try again.") from error
    return listener


def _login_error(server: Server, reason: str) -> SourceError:
    return SourceError(f"Cannot log in to {server.name!r}: {reason}")
