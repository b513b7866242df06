"""Route the requests of browsers: their logins are in the memory of one gateway."""

from __future__ import annotations

from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from .internal_route import PASSED_ON, read_body, replay_body
from .owner_client import OwnerClient, OwnerWords

_SEPARATOR = "."
_WORDS = OwnerWords(owner_silent="The worker that answers this page does not answer. Try again.")


def mark_secret(replica: str, secret: str) -> str:
    """A secret for a link or a cookie that names the replica that knows it."""
    return f"{replica}{_SEPARATOR}{secret}" if replica else secret


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRules:
    """Who answers which path.

    Below `tickets_path` the link or the cookie names its replica. All other pages belong to the
    `lead` of the workers, if there is one, but for `local_paths`.
    """

    lead: str
    local_paths: frozenset[str]
    tickets_path: str
    ticket_field: str
    ticket_cookie: str

    def find_owner(self, scope: Scope) -> str:
        """The replica that answers a request; empty if any can."""
        if scope["path"] in self.local_paths:
            return ""
        if not scope["path"].startswith(f"{self.tickets_path}/"):
            return self.lead
        query = parse_qs(scope["query_string"].decode("latin-1"))
        (ticket, *_) = query.get(self.ticket_field, [""])
        owner, separator, _ = (ticket or _read_cookie(scope, self.ticket_cookie)).partition(
            _SEPARATOR
        )
        return owner if separator else ""


class PageRouter:
    """An ASGI middleware; a request that was passed on is answered here in any case."""

    def __init__(self, app: ASGIApp, *, rules: PageRules, owners: OwnerClient) -> None:
        self._app = app
        self._rules = rules
        self._owners = owners

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let its owner answer it."""
        is_routed = scope["type"] == "http" and PASSED_ON not in scope
        owner = self._rules.find_owner(scope) if is_routed else ""
        if not owner or owner == self._owners.replica:
            await self._app(scope, receive, send)
            return
        body = await read_body(receive)
        if body is None:  # the client disconnected
            return
        # A page of a worker that is gone is answered by any other.
        if not await self._owners.pass_on(owner, scope, body, receive, send, words=_WORDS):
            await self._app(scope, replay_body(body, receive), send)


def _read_cookie(scope: Scope, name: str) -> str:
    try:
        cookies = SimpleCookie(Headers(scope=scope).get("cookie", ""))
    except CookieError:
        return ""
    return cookies[name].value if name in cookies else ""
