"""Who opens a page of the gateway: the sender of a token, or a browser that logged in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastmcp.server.auth import AuthProvider
from starlette.requests import Request

from ..settings import Auth
from .browser_sessions import SessionCookies
from .roles import Identity
from .token_identity import token_identity

_SCHEME = "bearer"


@dataclass(frozen=True, slots=True)
class PageCallers:
    """Identifies callers of pages. The MCP endpoint knows only tokens, never cookies."""

    provider: AuthProvider | None
    read_auth: Callable[[], Auth]
    cookies: SessionCookies

    async def identify(self, request: Request) -> Identity | None:
        """The caller; None if a login is needed and missing or wrong."""
        # FastMCP authenticates only its own endpoint, so the pages check tokens themselves.
        header = request.headers.get("authorization")
        if self.provider is not None and header is not None:
            scheme, _, text = header.partition(" ")
            is_bearer = scheme.lower() == _SCHEME
            token = await self.provider.verify_token(text) if is_bearer else None
            return None if token is None else token_identity(token, self.read_auth())
        session = self.cookies.find(request)
        if session is not None:
            return session.identity
        return Identity("") if self.provider is None else None
