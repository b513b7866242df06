"""Who may use the console, and which forms are its own."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from ..gateway.client.auth import is_loopback
from ..gateway.gateway import Gateway
from ..gateway.identity.browser_login import LOGIN_PATH
from ..gateway.identity.browser_sessions import CSRF_FIELD
from ..gateway.identity.page_callers import PageCallers
from ..gateway.identity.roles import Identity, is_admin
from .frame import HEADERS

MAX_FORM_BYTES = 1_000_000
_MAX_FIELDS = 500
_FORM_TYPE = "application/x-www-form-urlencoded"
_OFF = "The console is switched off: console = false under [gateway].\n"
_NOT_ADMIN = "The console is for callers with the role admin.\n"
_NEEDS_LOGIN = f"Authentication required: log in with a browser at {LOGIN_PATH}.\n"
_FOREIGN_FORM = "This form is not from this console, or its session has ended. Load the page again."


class RefusedVisitError(Exception):
    """A request that the console does not answer; `response` says why."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


def refuse(text: str, status: HTTPStatus) -> RefusedVisitError:
    """The error for a request that is refused with a text."""
    return RefusedVisitError(PlainTextResponse(text, status, headers=dict(HEADERS)))


@dataclass(frozen=True, slots=True)
class ConsoleGuard:
    """Admits admins; on loopback, without authentication, everybody who uses this machine."""

    gateway: Gateway
    callers: PageCallers
    # Callers without a session get this one. No other site can read it, and it ends with the
    # process.
    _csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    async def admit(self, request: Request) -> Identity:
        """The caller; raises RefusedVisitError if the console is not for them."""
        if not self.gateway.setup.options.console:
            raise refuse(_OFF, HTTPStatus.NOT_FOUND)
        identity = await self.callers.identify(request)
        if identity is None or self._is_exposed(request, identity):
            raise ask_for_login(request)
        if self.callers.provider is not None and not is_admin(identity):
            raise refuse(_NOT_ADMIN, HTTPStatus.FORBIDDEN)
        return identity

    def _is_exposed(self, request: Request, identity: Identity) -> bool:
        """Whether a gateway without authentication is reached under a public name."""
        # A proxy in front of a gateway on loopback makes it public. Its tools are meant to be
        # reached then, but who can change the configuration can run programs.
        host = request.url.hostname or ""
        return self.callers.provider is None and not is_admin(identity) and not is_loopback(host)

    def csrf_token(self, request: Request) -> str:
        """What the forms of this caller send along."""
        session = self.callers.cookies.find(request)
        return session.csrf if session is not None else self._csrf

    async def read_form(self, request: Request) -> Mapping[str, str]:
        """The fields of a POST; raises RefusedVisitError if its form is not of the console."""
        if not _is_same_origin(request):
            raise refuse(_FOREIGN_FORM, HTTPStatus.FORBIDDEN)
        form = await _parse_form(request)
        sent = form.get(CSRF_FIELD, "").encode(errors="replace")
        if not hmac.compare_digest(sent, self.csrf_token(request).encode()):
            raise refuse(_FOREIGN_FORM, HTTPStatus.FORBIDDEN)
        return form


def ask_for_login(request: Request) -> RefusedVisitError:
    """Send a browser to the login, and refuse other programs."""
    if "hx-request" in request.headers:
        # htmx would put the login page into the middle of the page.
        headers = {**HEADERS, "HX-Redirect": LOGIN_PATH}
        return RefusedVisitError(
            PlainTextResponse(_NEEDS_LOGIN, HTTPStatus.UNAUTHORIZED, headers=headers)
        )
    if "text/html" in request.headers.get("accept", ""):
        response = RedirectResponse(LOGIN_PATH, HTTPStatus.SEE_OTHER, headers=dict(HEADERS))
        return RefusedVisitError(response)
    return refuse(_NEEDS_LOGIN, HTTPStatus.UNAUTHORIZED)


def _is_same_origin(request: Request) -> bool:
    """Whether a request comes from a page of this gateway, as far as the browser says."""
    # The gateway lets any page of this machine call it; the console accepts only its own.
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


async def _parse_form(request: Request) -> Mapping[str, str]:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM_TYPE:
        raise refuse("The console accepts only forms.\n", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise refuse("The form is too long.\n", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    try:
        fields = parse_qsl(
            body.decode("utf-8", errors="replace"),
            keep_blank_values=True,
            max_num_fields=_MAX_FIELDS,
        )
    except ValueError as error:
        raise refuse("The form has too many fields.\n", HTTPStatus.BAD_REQUEST) from error
    return dict(fields)
