"""The logins with a browser of one gateway: links, cookies, and how a new link is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..settings import Auth
from .browser_sessions import BrowserSessions, OneTimeLinks, SessionCookies
from .login_attempts import LoginAttempts

LOGIN_PATH = "/login"
KEY_FIELD = "key"
_MINUTE = 60.0
_HOUR = 3_600.0


def _print_nothing(_: str) -> None:
    """Print no links, where nobody reads them."""


@dataclass(frozen=True, slots=True)
class BrowserLogin:
    """The logins with a browser of one gateway; `print_link` shows a new link to its operator."""

    links: OneTimeLinks
    cookies: SessionCookies
    attempts: LoginAttempts = field(default_factory=LoginAttempts)
    print_link: Callable[[str], None] = _print_nothing

    @classmethod
    def create(
        cls, auth: Auth, *, print_link: Callable[[str], None] = _print_nothing
    ) -> BrowserLogin:
        """Nobody is logged in yet; `print_link` gets the path of a new link."""
        sessions = BrowserSessions(auth.login_hours * _HOUR)
        is_public_tls = auth.public_url.startswith("https:")
        return cls(
            OneTimeLinks(auth.login_link_minutes * _MINUTE),
            SessionCookies(sessions, is_public_tls=is_public_tls),
            print_link=print_link,
        )

    @property
    def prints_links(self) -> bool:
        """Whether links are shown to somebody."""
        return self.print_link is not _print_nothing

    def offer_link(self) -> None:
        """Show a new link to the operator."""
        self.print_link(f"{LOGIN_PATH}?{KEY_FIELD}={self.links.create()}")
