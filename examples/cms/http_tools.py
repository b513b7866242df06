"""HTTP tools that reach only the hosts named when the site was opened."""

from __future__ import annotations

import json
from collections.abc import Collection
from html.parser import HTMLParser
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from toolscout import tool

_MAX_BYTES = 200_000
_TIMEOUT_SECONDS = 10


class HttpTools:
    def __init__(self, allowed: Collection[str]) -> None:
        self._allowed = frozenset(allowed)
        # No proxies and no redirects: either could reach a host that is not allowed.
        self._opener = build_opener(ProxyHandler({}), _NoRedirects())

    @tool(
        name="http_get",
        category="http",
        phrases=["http get", "fetch an api", "call a web service"],
        related=["http_post", "web_fetchContent"],
        risk="safe",
    )
    def get(self, url: str) -> dict[str, Any]:
        """Get an address over HTTP.

        Args:
            url: The address, with its scheme.
        """
        status, body = self.fetch(url)
        return {"status": status, "body": body.decode("utf-8", "replace")}

    @tool(
        name="http_post",
        category="http",
        phrases=["http post", "send data to an api", "submit to a web service"],
        related=["http_get"],
        risk="moderate",
        requires_confirmation=True,
    )
    def post(self, url: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send JSON to an address over HTTP.

        Args:
            url: The address, with its scheme.
            body: What to send.
        """
        status, reply = self.fetch(url, json.dumps(body).encode())
        return {"status": status, "body": reply.decode("utf-8", "replace")}

    def fetch(self, url: str, data: bytes | None = None) -> tuple[int, bytes]:
        """The status and body of a URL; PermissionError if its host is not allowed."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.netloc not in self._allowed:
            known = ", ".join(sorted(self._allowed)) or "none"
            raise PermissionError(f"{parts.netloc or url!r} is not allowed. Allowed: {known}.")
        headers = {"content-type": "application/json"} if data is not None else {}
        try:
            with self._opener.open(Request(url, data, headers), timeout=_TIMEOUT_SECONDS) as reply:
                return reply.status, reply.read(_MAX_BYTES)
        except HTTPError as error:
            with error:
                return error.code, error.read(_MAX_BYTES)

    @property
    def tools(self) -> tuple[Any, ...]:
        return self.get, self.post


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class _TextParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self.words: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, *_: object) -> None:
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "title" in self._inside:
            self.title += data.strip()
        elif not {"script", "style"} & set(self._inside):
            self.words += data.split()


def readable_text(html: str) -> tuple[str, str]:
    """The title and the visible text of a page."""
    parser = _TextParser()
    parser.feed(html)
    return parser.title, " ".join(parser.words)
