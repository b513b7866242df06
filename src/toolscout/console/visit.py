"""One request to the console: who asks, what was sent, and the ways to answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from ..gateway.gateway import Gateway
from ..gateway.identity.browser_login import LOGIN_PATH
from ..gateway.identity.browser_sessions import CSRF_FIELD
from ..gateway.identity.roles import Identity, is_admin
from .frame import HEADERS, Frame
from .html import Child, Html, join, tag
from .notices import Notices

NOTICE_FIELD = "notice"


class LoginNeededError(Exception):
    """The action is only for somebody who logged in, even on loopback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request that may be answered: its caller was admitted, and a POST has a valid token."""

    gateway: Gateway
    request: Request
    identity: Identity
    """Who asks; without a name if there is no authentication."""

    csrf: str
    current: str
    """The address of the page in the navigation."""

    links: Sequence[tuple[str, str]]
    notices: Notices
    form: Mapping[str, str] = field(default_factory=dict[str, str])
    """The fields of a POST."""

    @property
    def query(self) -> Mapping[str, str]:
        """The fields of the address."""
        return self.request.query_params

    @property
    def may_act(self) -> bool:
        """Whether an admin logged in, who may change how the gateway works."""
        return is_admin(self.identity)

    def require_login(self) -> None:
        """Raise unless an admin logged in: for actions that change how the gateway works."""
        if not self.may_act:
            raise LoginNeededError

    def login_hint(self) -> Child:
        """How to get the buttons that only an admin has; nothing for an admin."""
        if self.may_act:
            return None
        link = tag("a", {"href": LOGIN_PATH}, "Log in")
        return tag("p", {"class": "muted"}, link, " to change anything here.")

    # Answers

    def show(self, title: str, *content: Child, status: int = HTTPStatus.OK) -> Response:
        """The page with its frame, below the notice of an action that led here."""
        notice = self.notices.take(self.query.get(NOTICE_FIELD, ""))
        frame = Frame(
            title=title, links=self.links, current=self.current, account=self._describe_account()
        )
        shown = tag("p", {"class": "notice", "role": "status"}, notice) if notice else None
        return _respond(frame.render(shown, tag("h1", None, title), *content), status)

    def show_part(self, *content: Child, status: int = HTTPStatus.OK) -> Response:
        """A part of a page, which htmx puts into the page."""
        return _respond(join(*content), status)

    def go_to(self, path: str, *, notice: str = "") -> Response:
        """Open a page of the console after an action; `notice` says what was done."""
        if notice:
            separator = "&" if "?" in path else "?"
            path = f"{path}{separator}{NOTICE_FIELD}={self.notices.put(notice)}"
        return RedirectResponse(path, status_code=HTTPStatus.SEE_OTHER, headers=dict(HEADERS))

    def stream(self, parts: AsyncIterator[tuple[str, Html]]) -> Response:
        """Parts of a page as they come, each with the id to continue after (server-sent events)."""
        return StreamingResponse(
            (_event(key, part) async for key, part in parts),
            headers={**HEADERS, "X-Accel-Buffering": "no"},
            media_type="text/event-stream",
        )

    # Forms

    def csrf_field(self) -> Html:
        """The hidden field that every form with `method="post"` needs."""
        return tag("input", {"type": "hidden", "name": CSRF_FIELD, "value": self.csrf})

    def button(self, label: str, action: str, *, about: str = "", **fields: str) -> Html:
        """A form with a single button, which posts these fields.

        `about` is read out after the label, where a page has several buttons with this label.
        """
        hidden = [
            tag("input", {"type": "hidden", "name": name, "value": value})
            for name, value in fields.items()
        ]
        form = {"method": "post", "action": action, "class": "inline"}
        more = tag("span", {"class": "hidden"}, f" {about}") if about else None
        return tag("form", form, self.csrf_field(), hidden, tag("button", None, label, more))

    def _describe_account(self) -> Child:
        if not self.identity.name:
            return None
        return join(f"{self.identity.name} ", self.button("Log out", "/logout"))


def _respond(content: Html, status: int) -> Response:
    # Text of servers may hold half a surrogate pair, which UTF-8 cannot encode.
    body = content.encode("utf-8", errors="replace")
    return HTMLResponse(body, status_code=status, headers=dict(HEADERS))


def _event(key: str, part: Html) -> bytes:
    """One server-sent event; without content it only keeps the connection open."""
    if not part:
        return b": \n\n"
    head = f"id: {key}\n" if key else ""
    # A line break of any kind ends a line of an event.
    lines = part.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    text = head + "".join(f"data: {line}\n" for line in lines) + "\n"
    return text.encode("utf-8", errors="replace")
