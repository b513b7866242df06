"""The page at `/`: what this server is, and how to connect a client to it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from html import escape
from typing import Any, NamedTuple

from fastmcp.server.server import FastMCP
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ...sources.server_status import OverallStatus
from ..identity.browser_sessions import CSRF_FIELD
from ..identity.roles import Identity
from .html_page import html_response, page_headers

_PATH = "/mcp"
_ABOUT = "Toolscout: one MCP server in front of many. Clients search for tools here and call them."
_TOKEN_NOTE = "Clients have to send a token: Authorization: Bearer TOKEN"  # noqa: S105 - a placeholder
_BODY = """\
<p>{about}</p>
<h2>Connect a client</h2>
<p>MCP address: <code>{mcp}</code></p>
<p>Claude Code:</p><pre>{command}</pre>
<p>Other clients:</p><pre>{entry}</pre>
{note}
<h2>Status</h2>
<p>Status: {status} (<a href="/health">{health}</a>)<br>
Metrics: <a href="/metrics">{metrics}</a></p>
{caller}"""


_MCP_BODY = """\
<p>{about}</p>
<p>Claude Code:</p><pre>{command}</pre>
<p>Other clients:</p><pre>{entry}</pre>
{note}
<p><a href="/">What this is, and its status</a></p>"""
_MCP_ABOUT = "This address is for MCP clients, not for browsers. Give it to your client:"
_NOT_ACCEPTABLE = 406


class BrowserPage:
    """An ASGI middleware that answers a browser which opens the address for MCP clients."""

    def __init__(self, app: ASGIApp, *, needs_token: Callable[[], bool]) -> None:
        self._app = app
        self._needs_token = needs_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a browser, and pass every other request on."""
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == _PATH:
            request = Request(scope)
            accept = request.headers.get("accept", "")
            if "text/html" in accept and "text/event-stream" not in accept:
                body = _render_mcp_body(_base(request), needs_token=self._needs_token())
                await html_response(body, status_code=_NOT_ACCEPTABLE)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _render_mcp_body(base: str, *, needs_token: bool) -> str:
    return _MCP_BODY.format(
        about=escape(_MCP_ABOUT),
        command=escape(_command(base, needs_token=needs_token)),
        entry=escape(_entry(base)),
        note=f"<p>{escape(_TOKEN_NOTE)}</p>" if needs_token else "",
    )


def _base(request: Request) -> str:
    """The address that the caller used. On loopback the Host header has been checked."""
    return str(request.base_url).rstrip("/")


class Visitor(NamedTuple):
    """Who opens the page, and what it shows of the servers; `csrf` is of a login with a browser."""

    identity: Identity | None
    servers: Mapping[str, str]
    csrf: str = ""
    console_path: str = ""


def add_index_page(
    app: FastMCP[Any],
    *,
    status: Callable[[], Awaitable[OverallStatus]],
    describe_visitor: Callable[[Request], Awaitable[Visitor]],
) -> None:
    """Serve the page; without a token it has neither names nor secrets."""

    @app.custom_route("/", ["GET"])
    async def get_index(request: Request) -> Response:
        visitor = await describe_visitor(request)
        page = _Page(_base(request), await status(), app.auth is not None, visitor)
        return index_response(request, page)

    _ = get_index


def index_response(request: Request, page: _Page) -> Response:
    """The page as HTML for browsers, JSON for programs that ask for it, else as plain text."""
    accept = request.headers.get("accept", "")
    if "text/html" in accept:
        return html_response(_render_body(page), has_form=bool(page.visitor.csrf))
    headers = dict(page_headers())
    if "application/json" in accept:
        return JSONResponse(_facts(page), headers=headers)
    return PlainTextResponse(_render_text(page), headers=headers)


class _Page(NamedTuple):
    """What the page depends on: the address, the status, whether clients need a token, who asks."""

    base: str
    status: OverallStatus
    needs_token: bool
    visitor: Visitor


def _facts(page: _Page) -> dict[str, object]:
    caller = page.visitor.identity
    facts: dict[str, object] = {
        "name": "toolscout",
        "about": _ABOUT,
        "status": page.status,
        "mcp": f"{page.base}{_PATH}",
        "health": f"{page.base}/health",
        "metrics": f"{page.base}/metrics",
        "needs_token": page.needs_token,
    }
    if caller is not None and caller.name:
        facts["caller"] = {"name": caller.name, "role": caller.role}
    return {**facts, "servers": dict(page.visitor.servers)} if page.visitor.servers else facts


def _command(base: str, *, needs_token: bool) -> str:
    header = ' --header "Authorization: Bearer TOKEN"' if needs_token else ""
    return f"claude mcp add --transport http toolscout {base}{_PATH}{header}"


def _entry(base: str) -> str:
    return json.dumps({"mcpServers": {"toolscout": {"url": f"{base}{_PATH}"}}})


def _render_text(page: _Page) -> str:
    base = page.base
    note = f"{_TOKEN_NOTE}\n" if page.needs_token else ""
    return (
        f"{_ABOUT}\n\nMCP address: {base}{_PATH}\n{note}Status: {page.status} ({base}/health)\n"
        f"Metrics: {base}/metrics\n\nClaude Code: {_command(base, needs_token=page.needs_token)}\n"
        f"Other clients: {_entry(base)}\n"
    )


def _render_body(page: _Page) -> str:
    base = page.base
    return _BODY.format(
        about=escape(_ABOUT),
        mcp=escape(f"{base}{_PATH}"),
        command=escape(_command(base, needs_token=page.needs_token)),
        entry=escape(_entry(base)),
        note=f"<p>{escape(_TOKEN_NOTE)}</p>" if page.needs_token else "",
        status=escape(page.status),
        health=escape(f"{base}/health"),
        metrics=escape(f"{base}/metrics"),
        caller=_render_caller(page),
    )


def _render_caller(page: _Page) -> str:
    """Who is logged in, or where to log in, and the servers that the caller may know."""
    caller, servers, csrf, console = page.visitor
    rows = [f"<li>{escape(name)}: {escape(status)}</li>" for name, status in servers.items()]
    parts = [f'<p><a href="{console}">Open the console</a></p>'] if console else []
    parts += ["<h2>Servers</h2>", "<ul>", *rows, "</ul>"] if rows else []
    if caller is not None and caller.name:
        parts.append(f"<p>Logged in as {escape(caller.name)} ({caller.role}).</p>")
    elif page.needs_token:
        parts.append('<p><a href="/login">Log in with this browser</a></p>')
    if csrf:
        field = f'<input type="hidden" name="{CSRF_FIELD}" value="{escape(csrf)}">'
        parts.append(f'<form method="post" action="/logout">{field}<button>Log out</button></form>')
    return "\n".join(parts)
