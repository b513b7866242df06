"""The page at `/`: what this server is, and how to connect a client to it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from typing import Any

from fastmcp.server.server import FastMCP
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

_PATH = "/mcp"
_ABOUT = "Toolscout: one MCP server in front of many. Clients search for tools here and call them."
_TOKEN_NOTE = "Clients have to send a token: Authorization: Bearer TOKEN"  # noqa: S105 - a placeholder
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem;"
    "color:#222;background:#fff}code,pre{font-family:ui-monospace,monospace;background:#f3f3f3;"
    "border-radius:4px}code{padding:.1em .3em}pre{padding:.8em;overflow-x:auto}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}"
    "code,pre{background:#2a2a2a}a{color:#8bf}}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# Nothing but the style of this page, by its hash: no script, no image, no frame, no form.
_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Vary": "Accept",
}
_PAGE = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Toolscout</title><style>{style}</style></head>
<body>
<h1>Toolscout</h1>
<p>{about}</p>
<h2>Connect a client</h2>
<p>MCP address: <code>{mcp}</code></p>
<p>Claude Code:</p><pre>{command}</pre>
<p>Other clients:</p><pre>{entry}</pre>
{note}
<h2>Status</h2>
<p>Status: <a href="/health">{status}</a><br>Metrics: <a href="/metrics">{metrics}</a></p>
</body>
</html>
"""


def add_index_page(app: FastMCP[Any]) -> None:
    """Serve the page; it needs no token and has no secrets."""

    @app.custom_route("/", ["GET"])
    async def get_index(request: Request) -> Response:
        return index_response(request, needs_token=app.auth is not None)

    _ = get_index


def index_response(request: Request, *, needs_token: bool) -> Response:
    """The page as HTML for browsers, JSON for programs that ask for it, else as plain text."""
    # The address that the caller used. On loopback the Host header has been checked.
    base = str(request.base_url).rstrip("/")
    accept = request.headers.get("accept", "")
    if "text/html" in accept:
        return HTMLResponse(_render_page(base, needs_token=needs_token), headers=_HEADERS)
    if "application/json" in accept:
        return JSONResponse(_facts(base, needs_token=needs_token), headers=_HEADERS)
    return PlainTextResponse(_render_text(base, needs_token=needs_token), headers=_HEADERS)


def _facts(base: str, *, needs_token: bool) -> dict[str, object]:
    return {
        "name": "toolscout",
        "about": _ABOUT,
        "mcp": f"{base}{_PATH}",
        "status": f"{base}/health",
        "metrics": f"{base}/metrics",
        "needs_token": needs_token,
    }


def _command(base: str, *, needs_token: bool) -> str:
    header = ' --header "Authorization: Bearer TOKEN"' if needs_token else ""
    return f"claude mcp add --transport http toolscout {base}{_PATH}{header}"


def _entry(base: str) -> str:
    return json.dumps({"mcpServers": {"toolscout": {"url": f"{base}{_PATH}"}}})


def _render_text(base: str, *, needs_token: bool) -> str:
    note = f"{_TOKEN_NOTE}\n" if needs_token else ""
    return (
        f"{_ABOUT}\n\nMCP address: {base}{_PATH}\n{note}Status: {base}/health\n"
        f"Metrics: {base}/metrics\n\nClaude Code: {_command(base, needs_token=needs_token)}\n"
        f"Other clients: {_entry(base)}\n"
    )


def _render_page(base: str, *, needs_token: bool) -> str:
    return _PAGE.format(
        style=_STYLE,
        about=escape(_ABOUT),
        mcp=escape(f"{base}{_PATH}"),
        command=escape(_command(base, needs_token=needs_token)),
        entry=escape(_entry(base)),
        note=f"<p>{escape(_TOKEN_NOTE)}</p>" if needs_token else "",
        status=escape(f"{base}/health"),
        metrics=escape(f"{base}/metrics"),
    )
