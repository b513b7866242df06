"""Redirects of an MCP server: a call is never sent again, everything else may be."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, cast

import httpx2

# With these the client sends the same request once more.
_REPEATING = (HTTPStatus.TEMPORARY_REDIRECT, HTTPStatus.PERMANENT_REDIRECT)
_LOCATION = "location"


class CallRedirects:
    """Remembers where a server moved, so that no call has to be redirected.

    A web framework often redirects `/mcp` to `/mcp/`. The handshake follows that. A call that is
    redirected may have run already, so it is not followed.
    """

    def __init__(self, url: str) -> None:
        self._url = httpx2.URL(url)
        self._moved: httpx2.URL | None = None

    async def rewrite_request(self, request: httpx2.Request) -> None:
        """Send a message to the address that the server named last."""
        if self._moved is not None and request.method == "POST" and request.url == self._url:
            request.url = self._moved

    async def check_response(self, response: httpx2.Response) -> None:
        """Remember a redirect within the origin; that of a call is not one to follow."""
        request = response.request
        is_redirect = response.status_code in _REPEATING and _LOCATION in response.headers
        if request.method != "POST" or not is_redirect:
            return
        if _is_call(request):
            del response.headers[_LOCATION]
            return
        try:
            location = request.url.join(response.headers[_LOCATION])
        except httpx2.InvalidURL:  # the client reports it
            return
        if request.url in (self._url, self._moved) and _is_within(location, self._url):
            self._moved = location


def _is_call(request: httpx2.Request) -> bool:
    try:
        message: Any = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):  # a request of a login
        return False
    if not isinstance(message, dict):
        return False
    return cast("dict[str, Any]", message).get("method") == "tools/call"


def _is_within(location: httpx2.URL, url: httpx2.URL) -> bool:
    """Whether the SDK follows a redirect there: the same origin, or HTTPS instead of HTTP."""
    if location.userinfo != url.userinfo or location.host != url.host or location.port != url.port:
        return False
    is_upgrade = (url.scheme, location.scheme, url.port) == ("http", "https", None)
    return location.scheme == url.scheme or is_upgrade
