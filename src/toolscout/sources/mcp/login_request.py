"""Ask a principal to log in to a server: through the client, or in the reply."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from contextlib import suppress

import mcp_types as types

from ...errors import SourceError
from ...program import remote_command_line
from .client_channel import CURRENT_CHANNEL, ClientChannel
from .oauth_tokens import Grant, OAuthTokenStore
from .servers import Server

LoginLink = Callable[[str, str], str]
"""The address at which a principal can log in to a server by name; empty if there is none."""

# How long a call waits for its user, including the time in which the page is open.
_MAX_WAIT_SECONDS = 100.0
_POLL_SECONDS = 0.2


class LoginRequiredError(SourceError):
    """A server needs the caller's own login."""


class LoginRequests:
    """Asks principals for their logins to one server."""

    def __init__(
        self, server: Server, *, grants: OAuthTokenStore | None, link: LoginLink | None
    ) -> None:
        self._server = server
        self._grants = grants
        self._link = link

    def has_login(self, principal: str) -> bool:
        """Whether a principal has a login that may work."""
        grant = self._load(principal)
        return grant is not None and bool(grant.refresh_token or not grant.is_expired)

    async def require(self, principal: str) -> None:
        """Raise unless the principal has a login, after asking them if their client can."""
        if self.has_login(principal):
            return
        url = self._find_link(principal)
        channel = CURRENT_CHANNEL.get()
        if channel is not None and url and _can_open_urls(channel):
            wait = min(_MAX_WAIT_SECONDS, self._server.limits.call_timeout_seconds or 1e9)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._ask(channel, url, principal)
        if not self.has_login(principal):
            raise self.error(principal)

    def error(self, principal: str) -> LoginRequiredError:
        """The error that says how to log in."""
        name = self._server.name
        option = ("--principal", principal) if principal else ()
        command = remote_command_line("login", name, *option)
        unreadable = (
            self._grants.explain_unreadable(self._server.url, principal) if self._grants else ""
        )
        note = f" {unreadable[0].upper()}{unreadable[1:]}" if unreadable else ""
        url = self._find_link(principal)
        hint = f"The operator of the gateway can run: {command}"
        if url:
            hint = f"Open {url} in a browser, then call again. {hint}"
        return LoginRequiredError(f"Server {name!r} needs your own login.{note}", hint=hint)

    def _find_link(self, principal: str) -> str:
        return self._link(self._server.name, principal) if self._link else ""

    async def _ask(self, channel: ClientChannel, url: str, principal: str) -> None:
        params = types.ElicitRequestURLParams(
            message=f"Log in to {self._server.name} to use its tools.",
            url=url,
            elicitation_id=uuid.uuid4().hex,
        )
        answer = await channel.answer(types.ElicitRequest(params=params))
        # "accept" says only that the user opens the page.
        if isinstance(answer, types.ElicitResult) and answer.action == "accept":
            while not self.has_login(principal):  # noqa: ASYNC110 -- another process may write it
                await asyncio.sleep(_POLL_SECONDS)

    def _load(self, principal: str) -> Grant | None:
        return self._grants.load(self._server.url, principal) if self._grants else None


def _can_open_urls(channel: ClientChannel) -> bool:
    elicitation = channel.capabilities.get("elicitation")
    return isinstance(elicitation, dict) and elicitation.get("url") is not None  # pyright: ignore[reportUnknownMemberType] -- what the client sent
