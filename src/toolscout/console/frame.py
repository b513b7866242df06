"""The frame around every page: navigation, style, scripts and the headers that protect it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .html import Child, Html, join, tag
from .static_files import static_url

# htmx would otherwise add a style sheet, and keep copies of pages in the history of the browser.
_HTMX_CONFIG = '{"includeIndicatorCSS": false, "mode": "same-origin", "history": false}'
_HTMX = "htmx.min.js"
_SCRIPTS = (_HTMX, "hx-sse.min.js", "uPlot.iife.min.js", "console.js")
_STYLES = ("uPlot.min.css", "console.css")

HEADERS: Mapping[str, str] = {
    # No inline script or style, no eval, and nothing from another host.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With `no-referrer`, browsers hide the origin of a form, which is checked here.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": "Cookie, Authorization",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What surrounds the content of one page; `links` are titles with their addresses."""

    title: str
    links: Sequence[tuple[str, str]]
    current: str
    account: Child = None

    def render(self, *content: Child) -> Html:
        """The whole document."""
        head = tag("head", None, _metadata(self.title))
        skip = tag("a", {"class": "skip", "href": "#content"}, "Skip to the content")
        main = tag("main", {"id": "content", "tabindex": "-1"}, *content)
        body = tag("body", None, skip, self._header(), main)
        return join(Html("<!doctype html>\n"), tag("html", {"lang": "en"}, head, body), "\n")

    def _header(self) -> Html:
        entries = [
            tag("li", None, tag("a", {"href": path, "aria-current": self._mark(path)}, title))
            for title, path in self.links
        ]
        navigation = tag("nav", {"aria-label": "Pages"}, tag("ul", None, entries))
        name = tag("p", {"class": "name"}, "Toolscout")
        account = tag("div", {"class": "account"}, self.account)
        return tag("header", {"class": "top"}, name, navigation, account)

    def _mark(self, path: str) -> str | None:
        return "page" if path == self.current else None


def _metadata(title: str) -> Html:
    icon = {"rel": "icon", "href": static_url("icon.svg"), "type": "image/svg+xml"}
    return join(
        tag("meta", {"charset": "utf-8"}),
        tag("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        tag("meta", {"name": "color-scheme", "content": "light dark"}),
        tag("meta", {"name": "htmx-config", "content": _HTMX_CONFIG}),
        tag("title", None, f"{title} · Toolscout"),
        tag("link", icon),
        (tag("link", {"rel": "stylesheet", "href": static_url(name)}) for name in _STYLES),
        # htmx while the document loads, since it then waits for its extensions. If it is deferred
        # too, it may start before an extension has arrived, and the page never follows anything.
        (
            tag("script", {"src": static_url(name), "defer": name != _HTMX or None})
            for name in _SCRIPTS
        ),
    )
