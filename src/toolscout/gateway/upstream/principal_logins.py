"""Logins of principals to servers, in a browser that the gateway sends to the server and back."""

from __future__ import annotations

import asyncio
import contextvars
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote, urlsplit

from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult

from ...errors import SourceError
from ...sources.mcp.login import log_in_through
from ...sources.mcp.oauth_tokens import Grant, OAuthTokenStore
from ...sources.mcp.servers import Server
from ..fleet.page_routing import mark_secret

LOGIN_PATH = "/connect"
TICKET_SECONDS = 600.0
"""How long a link to a login page is valid."""
_MAX_TICKETS = 1_000
_MAX_OPEN_LOGINS = 100
_EXCHANGE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class LoginTicket:
    """The right to log in to one server for one principal, which a link carries."""

    token: str = field(repr=False)
    principal: str
    server: str
    expires: float


class _Callback:
    """The gateway's own page as the place that the browser returns to."""

    def __init__(self, url: str) -> None:
        self.url = url
        loop = asyncio.get_running_loop()
        self.consent_url: asyncio.Future[str] = loop.create_future()
        self.result: asyncio.Future[AuthorizationCodeResult] = loop.create_future()

    async def send_user(self, url: str) -> None:
        self.consent_url.set_result(url)

    async def wait(self) -> AuthorizationCodeResult:
        return await self.result


@dataclass(frozen=True, slots=True)
class _OpenLogin:
    """A login whose user is at the server's page now."""

    ticket: LoginTicket
    callback: _Callback
    task: asyncio.Task[Grant]
    browser: str = field(repr=False)


async def ignore_login(_: str) -> None:
    """Do nothing after a login."""


class PrincipalLogins:
    """Hands out links to login pages, and completes the logins that they start."""

    def __init__(
        self,
        grants: OAuthTokenStore,
        *,
        find_server: Callable[[str], Server | None],
        on_shared_login: Callable[[str], Awaitable[None]] = ignore_login,
        clock: Callable[[], float] = time.monotonic,
        replica: str = "",
    ) -> None:
        self._grants = grants
        self._on_shared_login = on_shared_login
        # Links and cookies name the gateway that knows them, so that any other can pass them on.
        self._replica = replica
        self._find_server = find_server
        self._clock = clock
        self._tickets: dict[tuple[str, str], LoginTicket] = {}
        self._open: dict[str, _OpenLogin] = {}

    def link(self, base_url: str, server: str, principal: str) -> str:
        """The address of a login page, which only this principal gets to know."""
        now = self._clock()
        key = (principal, server)
        ticket = self._tickets.pop(key, None)
        # A link that is about to expire is of little use.
        if ticket is None or ticket.expires < now + TICKET_SECONDS / 2:
            token = mark_secret(self._replica, secrets.token_urlsafe(24))
            ticket = LoginTicket(token, principal, server, now + TICKET_SECONDS)
        self._tickets[key] = ticket
        while len(self._tickets) > _MAX_TICKETS:
            self._tickets.pop(next(iter(self._tickets)))
        return f"{base_url}{LOGIN_PATH}/{quote(server)}?ticket={ticket.token}"

    def find_ticket(self, server: str, token: str) -> LoginTicket | None:
        """The ticket of a link; None if it is wrong, used or expired."""
        found: LoginTicket | None = None
        for ticket in self._tickets.values():
            is_same = hmac.compare_digest(ticket.token.encode(), token.encode())
            if is_same and ticket.server == server and ticket.expires > self._clock():
                found = ticket
        return found

    async def begin(self, ticket: LoginTicket, base_url: str) -> tuple[str, str]:
        """Start a login: where to send the browser, and a secret that it has to bring back."""
        server = self._find_server(ticket.server)
        if server is None or (ticket.principal and not server.oauth.is_per_principal):
            raise SourceError(f"Server {ticket.server!r} has no logins per principal.")
        if len(self._open) >= _MAX_OPEN_LOGINS:
            raise SourceError("Too many people are logging in.", hint="Try again in a minute.")
        self._tickets.pop((ticket.principal, ticket.server), None)
        callback = _Callback(f"{base_url}{LOGIN_PATH}/{quote(ticket.server)}/callback")
        work = log_in_through(server, callback, principal=ticket.principal)
        task = asyncio.create_task(work, context=contextvars.Context())
        await asyncio.wait([task, callback.consent_url], return_when=asyncio.FIRST_COMPLETED)
        if not callback.consent_url.done():
            task.result()
            raise SourceError(f"Server {ticket.server!r} does not require a login.")
        url = callback.consent_url.result()
        # The SDK made the state, and compares it again when the browser is back.
        (state,) = parse_qs(urlsplit(url).query)["state"]
        browser = mark_secret(self._replica, secrets.token_urlsafe(24))
        login = _OpenLogin(ticket, callback, task, browser)
        self._open[state] = login
        task.add_done_callback(lambda _: self._forget(state))
        return url, login.browser

    async def finish(self, server: str, state: str, browser: str, answer: BrowserAnswer) -> None:
        """Complete the login that a browser comes back from; SourceError says why it failed."""
        login = self._open.get(state)
        # Only the browser that started the login may end it: otherwise a link of one person could
        # make another give consent.
        if (
            login is None
            or login.ticket.server != server
            or not hmac.compare_digest(login.browser.encode(), browser.encode())
        ):
            raise SourceError("This login was not started here, or it has expired.")
        del self._open[state]
        if answer.error or not answer.code:
            login.callback.result.set_exception(OAuthFlowError(answer.error or "no code"))
        else:
            result = AuthorizationCodeResult(code=answer.code, state=state, iss=answer.issuer)
            login.callback.result.set_result(result)
        async with asyncio.timeout(_EXCHANGE_SECONDS):
            grant = await login.task
        await asyncio.to_thread(self._grants.save, grant)
        if not login.ticket.principal:
            await self._on_shared_login(server)

    def describe_owner(self, ticket: LoginTicket) -> str:
        """Whose calls will use the account of a login."""
        server = self._find_server(ticket.server)
        if ticket.principal:
            return ticket.principal
        is_shared = server is not None and not server.oauth.is_per_principal
        return "everybody who uses this gateway" + ("" if is_shared else " without a token")

    async def close(self) -> None:
        """End the logins that are open."""
        tasks = [login.task for login in self._open.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, state: str) -> None:
        login = self._open.pop(state, None)
        if login is not None and not login.task.cancelled():
            login.task.exception()  # marks it as retrieved; asyncio would log it otherwise


@dataclass(frozen=True, slots=True)
class BrowserAnswer:
    """What the authorization server sent along with the browser."""

    code: str = field(default="", repr=False)
    issuer: str | None = None
    error: str = ""
