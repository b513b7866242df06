"""The pages for logins with a browser: `/login` and its parts, and `/logout`."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from fastmcp.server.server import FastMCP
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..operations.html_page import html_response
from ..settings import Auth
from .browser_login import KEY_FIELD, LOGIN_PATH, BrowserLogin
from .browser_sessions import CSRF_FIELD
from .login_refusals import LoginRefusedError
from .roles import OPERATOR

if TYPE_CHECKING:
    from .openid_login import OpenIDLogin
    from .openid_provider import OpenIDProvider

_ATTEMPT_COOKIE = "toolscout_login"
_MAX_FORM_BYTES = 8_192
_MAX_FIELDS = 16


def build_openid_login(
    read_auth: Callable[[], Auth], provider: OpenIDProvider | None
) -> OpenIDLogin | None:
    """The login at the issuer; None unless the gateway has an id there."""
    if provider is None or not read_auth().client_id:
        return None
    # Imported here: its cryptography library is slow to import.
    from .openid_login import OpenIDLogin

    return OpenIDLogin(read_auth, provider)


def add_login_routes(app: FastMCP[Any], login: BrowserLogin, openid: OpenIDLogin | None) -> None:
    """Serve the pages."""
    pages = LoginPages(login, openid)
    app.custom_route(LOGIN_PATH, ["GET"])(pages.get_login)
    app.custom_route(LOGIN_PATH, ["POST"])(pages.post_login)
    app.custom_route(f"{LOGIN_PATH}/link", ["POST"])(pages.post_link)
    app.custom_route("/logout", ["POST"])(pages.post_logout)
    if openid is not None:
        accounts = AccountPages(pages, openid)
        app.custom_route(f"{LOGIN_PATH}/openid", ["GET"])(accounts.get_openid)
        app.custom_route(openid.callback_path, ["GET"])(accounts.get_callback)


class LoginPages:
    """Login with a one-time link, and logout."""

    def __init__(self, login: BrowserLogin, openid: OpenIDLogin | None) -> None:
        self.login = login
        self._has_accounts = openid is not None

    async def get_login(self, request: Request) -> Response:
        """The ways to log in; with a link, the button that uses it."""
        key = request.query_params.get(KEY_FIELD, "")
        if not key:
            return self.render()
        # Opening the link logs nobody in: programs that preview links would use it up.
        return _page(_form(LOGIN_PATH, "Log in", (KEY_FIELD, key)))

    async def post_login(self, request: Request) -> Response:
        """Use a link up, and open a session."""
        form = await _read_form(request)
        if not self.login.links.redeem(form.get(KEY_FIELD, "")):
            return self.render("This link was used before, or it is too old.")
        response = RedirectResponse("/", status_code=HTTPStatus.SEE_OTHER)
        self.login.cookies.log_in(request, response, OPERATOR)
        return response

    async def post_link(self, _: Request) -> Response:
        """Print a new link, where only the operator sees it."""
        if not self.login.prints_links:
            return _page("<p>This gateway prints no login links.</p>", HTTPStatus.NOT_FOUND)
        if wait := self.login.links.wait_seconds:
            response = _page("<p>Try again in a moment.</p>", HTTPStatus.TOO_MANY_REQUESTS)
            response.headers["Retry-After"] = str(int(wait) + 1)
            return response
        self.login.offer_link()
        return _page("<p>A new login link is in the terminal of the gateway.</p>")

    async def post_logout(self, request: Request) -> Response:
        """End the session, if the form is one of its own."""
        form = await _read_form(request)
        if not self.login.cookies.is_own_form(request, form.get(CSRF_FIELD)):
            return _page("<p>Nobody was logged out. Load the page again.</p>", HTTPStatus.FORBIDDEN)
        response = RedirectResponse("/", status_code=HTTPStatus.SEE_OTHER)
        self.login.cookies.log_out(request, response)
        return response

    def render(self, problem: str = "") -> Response:
        """The ways to log in that this gateway offers, below what went wrong."""
        parts = [f"<p>{escape(problem)}</p>"] if problem else []
        if self._has_accounts:
            parts.append(f'<p><a href="{LOGIN_PATH}/openid">Log in with your account</a></p>')
        if self.login.prints_links:
            parts.append("<p>Open the login link that the terminal of the gateway shows.</p>")
            parts.append(_form(f"{LOGIN_PATH}/link", "Print a new link there"))
        if not self._has_accounts and not self.login.prints_links:
            parts.append("<p>This gateway offers no login with a browser.</p>")
        return _page("\n".join(parts), HTTPStatus.FORBIDDEN if problem else HTTPStatus.OK)


class AccountPages:
    """Login at an OpenID provider."""

    def __init__(self, pages: LoginPages, openid: OpenIDLogin) -> None:
        self._pages = pages
        self._login = pages.login
        self._openid = openid

    async def get_openid(self, request: Request) -> Response:
        """Send the browser to the provider."""
        attempt = self._login.attempts.begin()
        try:
            url = await self._openid.login_url(attempt, _base_url(request))
        except LoginRefusedError as error:
            return _page(f"<p>{escape(str(error))}</p>", HTTPStatus.BAD_GATEWAY)
        response = RedirectResponse(url, status_code=HTTPStatus.SEE_OTHER)
        # Lax: the provider sends the browser back, which is a request from another site.
        response.set_cookie(
            _ATTEMPT_COOKIE,
            attempt.cookie,
            max_age=self._login.attempts.lifetime_seconds,
            path=LOGIN_PATH,
            httponly=True,
            samesite="lax",
            secure=self._login.cookies.is_secure(request),
        )
        return response

    async def get_callback(self, request: Request) -> Response:
        """Open a session for the person that the provider names."""
        answer = dict(request.query_params)
        cookie = request.cookies.get(_ATTEMPT_COOKIE, "")
        attempt = self._login.attempts.resume(cookie, answer.get("state", ""))
        if attempt is None:
            return self._pages.render("The login was not begun in this browser, or is too old.")
        try:
            identity = await self._openid.identify(attempt, answer, _base_url(request))
        except LoginRefusedError as error:
            return self._pages.render(str(error))
        # A page and not a redirect: browsers count a redirect as part of the request from the
        # provider's site, and would not send the new cookie along.
        response = html_response(
            '<p>You are logged in. <a href="/">Continue</a></p>', next_path="/"
        )
        response.delete_cookie(_ATTEMPT_COOKIE, path=LOGIN_PATH)
        self._login.cookies.log_in(request, response, identity)
        return response


def _page(body: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return html_response(body, status_code=status, has_form=True)


def _form(action: str, label: str, *fields: tuple[str, str]) -> str:
    inputs = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
        for name, value in fields
    )
    return f'<form method="post" action="{action}">{inputs}<button>{label}</button></form>'


async def _read_form(request: Request) -> dict[str, str]:
    body = (await request.body())[:_MAX_FORM_BYTES].decode("utf-8", errors="replace")
    try:
        fields = parse_qs(body, max_num_fields=_MAX_FIELDS)
    except ValueError:  # none of our forms has so many
        return {}
    return {name: values[0] for name, values in fields.items()}


def _base_url(request: Request) -> str:
    return str(request.base_url).rstrip("/")
