"""A server whose tools need a login, and that remembers who came: `python accounts.py PORT...`.

One server per port, all in one process. Every login registers a client of its own, so the client's
id says which login a token comes from. `/seen` lists the logins of all MCP requests, and those of
the calls.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.server.dependencies import get_access_token
from mcp.server.auth.provider import RefreshToken
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class Accounts(InMemoryOAuthProvider):
    """Gives a login to anybody who comes, and counts renewals."""

    def __init__(self, base_url: str) -> None:
        registration = ClientRegistrationOptions(enabled=True, valid_scopes=["tools"])
        super().__init__(base_url=base_url, client_registration_options=registration)
        self.logins: dict[str, str] = {}
        self.seen: list[str] = []
        self.used: list[str] = []
        self.renewals = 0

    def record(self, token: str) -> None:
        self.logins |= {t: a.client_id for t, a in self.access_tokens.items()}
        self.seen.append(self.logins.get(token, f"unknown token {token}"))

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.renewals += 1
        # Others have time to come with the same token.
        await asyncio.sleep(0.2)
        return await super().exchange_refresh_token(client, refresh_token, scopes)


class Recorder:
    """Records the token of every MCP request, also of those that are refused."""

    def __init__(self, app: ASGIApp, accounts: Accounts) -> None:
        self._app = app
        self._accounts = accounts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/mcp":
            headers = dict(scope["headers"])
            if token := headers.get(b"authorization", b"").decode().removeprefix("Bearer "):
                self._accounts.record(token)
        await self._app(scope, receive, send)


def build(port: int) -> Any:
    accounts = Accounts(f"http://127.0.0.1:{port}")
    server = FastMCP("accounts", auth=accounts)

    @server.tool
    def whoami() -> str:
        """The login that this call came with."""
        token = get_access_token()
        login = token.client_id if token else "nobody"
        accounts.used.append(login)
        return f"login {login}"

    @server.resource("account://me")
    def me() -> str:
        """The same as a resource."""
        return whoami()

    @server.custom_route("/seen", ["GET"])
    async def seen(_: Request) -> JSONResponse:
        facts = {"logins": accounts.seen, "used": accounts.used, "renewals": accounts.renewals}
        return JSONResponse(facts)

    @server.custom_route("/expire", ["POST"])
    async def expire(_: Request) -> JSONResponse:
        accounts.logins |= {t: a.client_id for t, a in accounts.access_tokens.items()}
        accounts.access_tokens.clear()
        return JSONResponse({})

    @server.custom_route("/revoke", ["POST"])
    async def revoke(request: Request) -> JSONResponse:
        accounts.refresh_tokens.clear()
        return await expire(request)

    _ = (me, seen, revoke)
    return Recorder(server.http_app(path="/mcp"), accounts)


async def main() -> None:
    ports = [int(port) for port in sys.argv[1:]]
    configs = [uvicorn.Config(build(port), port=port, ws="none") for port in ports]
    await asyncio.gather(*(uvicorn.Server(config).serve() for config in configs))


if __name__ == "__main__":
    asyncio.run(main())
