"""Pages at `/connect/SERVER`, where a principal logs in to a server with their own account."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from fastmcp.server.dependencies import get_http_request
from fastmcp.server.server import FastMCP
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ...errors import SourceError
from ..upstream.principal_logins import LOGIN_PATH, BrowserAnswer, PrincipalLogins

TICKET_COOKIE = "toolscout_connect"
TICKET_FIELD = "ticket"
_COOKIE_SECONDS = 600
_SEE_OTHER = 303
_REFUSED = 403
_FAILED = 502
_MAX_FORM_BYTES = 10_000
# No form-action: browsers would apply it to the redirect that follows the form.
_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # With `no-referrer`, browsers send the form with the origin `null`, which is refused. The link
    # has a secret in its address, which `same-origin` keeps from other hosts as well.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_PAGE = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Toolscout</title></head>
<body><h1>{title}</h1>{body}</body>
</html>
"""
_EXPIRED = "This link has expired or was used. Call the tool again to get a new one."


def request_base_url(public_url: str) -> str:
    """The address of the gateway for links: as configured, or as the caller used it."""
    if public_url:
        return public_url.rstrip("/")
    try:
        return str(get_http_request().base_url).rstrip("/")
    except RuntimeError:  # the request did not come over HTTP
        return ""


def add_connect_pages(
    app: FastMCP[Any], logins: PrincipalLogins, *, public_url: Callable[[], str]
) -> None:
    """Serve the pages; `public_url` returns the configured address of the gateway."""

    def base_url(request: Request) -> str:
        return (public_url() or str(request.base_url)).rstrip("/")

    @app.custom_route(f"{LOGIN_PATH}/{{server}}", ["GET"])
    async def show_page(request: Request) -> Response:
        server, token = request.path_params["server"], request.query_params.get(TICKET_FIELD, "")
        ticket = logins.find_ticket(server, token)
        if ticket is None:
            return _render("Link expired", escape(_EXPIRED), status=_REFUSED)
        # The person who opens the link may be another than the one who got it. Their consent would
        # give their account at the server to that principal, so the page says whose it will be.
        who = escape(logins.describe_owner(ticket))
        body = (
            f"<p>Toolscout will use your account at <b>{escape(server)}</b> for <b>{who}</b>.</p>"
            "<p>Continue only if that is you, and you asked for it. If somebody sent you this"
            " link, close the page.</p>"
            f'<form method="post"><input type="hidden" name="{TICKET_FIELD}"'
            f' value="{escape(token)}"><button>Continue</button></form>'
        )
        return _render(f"Log in to {server}", body)

    @app.custom_route(f"{LOGIN_PATH}/{{server}}", ["POST"])
    async def start_login(request: Request) -> Response:
        server = request.path_params["server"]
        ticket = logins.find_ticket(server, await _read_ticket(request))
        if ticket is None:
            return _render("Link expired", escape(_EXPIRED), status=_REFUSED)
        try:
            url, browser = await logins.begin(ticket, base_url(request))
        except SourceError as error:
            return _render("Login failed", escape(str(error)), status=_FAILED)
        response = RedirectResponse(url, status_code=_SEE_OTHER, headers=dict(_HEADERS))
        response.set_cookie(
            TICKET_COOKIE,
            browser,
            max_age=_COOKIE_SECONDS,
            path=LOGIN_PATH,
            httponly=True,
            samesite="lax",
            secure=base_url(request).startswith("https:"),
        )
        return response

    @app.custom_route(f"{LOGIN_PATH}/{{server}}/callback", ["GET"])
    async def finish_login(request: Request) -> Response:
        server, query = request.path_params["server"], request.query_params
        error = query.get("error_description") or query.get("error", "")
        answer = BrowserAnswer(query.get("code", ""), query.get("iss"), error)
        browser = request.cookies.get(TICKET_COOKIE, "")
        try:
            await logins.finish(server, query.get("state", ""), browser, answer)
        except (SourceError, TimeoutError) as failure:
            text = str(failure) or "The server did not answer in time."
            return _render("Login failed", escape(text), status=_REFUSED)
        return _render(f"Logged in to {server}", "<p>You can close this page.</p>")

    _ = (show_page, start_login, finish_login)


async def _read_ticket(request: Request) -> str:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_FORM_BYTES:
            return ""
    name, _, token = body.decode(errors="replace").partition("=")
    return token if name == TICKET_FIELD else ""


def _render(title: str, body: str, *, status: int = 200) -> Response:
    page = _PAGE.format(title=escape(title), body=body)
    return HTMLResponse(page, status_code=status, headers=_HEADERS)
