"""Logins with a browser: one-time links, sessions on the server side, and their cookie."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from .roles import Identity

# A person has a few of each. More would be somebody who fills the memory.
_MAX_LINKS = 8
_MAX_SESSIONS = 512
_MIN_LINK_SECONDS = 5.0
_COOKIE = "toolscout"
CSRF_FIELD = "csrf"


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


class OneTimeLinks:
    """The secrets of login links, of which only hashes are kept; each opens one session."""

    def __init__(
        self, lifetime_seconds: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lifetime_seconds = lifetime_seconds
        self._clock = clock
        self._expiry: OrderedDict[str, float] = OrderedDict()
        self._created_at = float("-inf")

    def create(self) -> str:
        """A new secret; the oldest is dropped if there are too many."""
        secret = secrets.token_urlsafe(32)
        self._created_at = self._clock()
        self._expiry[_hash(secret)] = self._created_at + self._lifetime_seconds
        if len(self._expiry) > _MAX_LINKS:
            self._expiry.popitem(last=False)
        return secret

    @property
    def wait_seconds(self) -> float:
        """How long until another link may be asked for; 0 if at once."""
        return max(0.0, self._created_at + _MIN_LINK_SECONDS - self._clock())

    def redeem(self, secret: str) -> bool:
        """Use a secret up; False if it is not known, used or too old."""
        expires_at = self._expiry.pop(_hash(secret), None)
        return expires_at is not None and self._clock() < expires_at


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """One login; `csrf` is what its forms send along."""

    identity: Identity
    csrf: str
    expires_at: float


class BrowserSessions:
    """The open logins, by the hash of their cookie; a restart of the gateway ends all of them."""

    def __init__(
        self, lifetime_seconds: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.lifetime_seconds = lifetime_seconds
        self._clock = clock
        self._sessions: OrderedDict[str, BrowserSession] = OrderedDict()

    def open(self, identity: Identity) -> str:
        """A new session; returns the secret for its cookie."""
        secret = secrets.token_urlsafe(32)
        expires_at = self._clock() + self.lifetime_seconds
        csrf = secrets.token_urlsafe(32)
        self._sessions[_hash(secret)] = BrowserSession(identity, csrf, expires_at)
        if len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return secret

    def find(self, secret: str) -> BrowserSession | None:
        """The session of a cookie; None if there is none, or no longer."""
        session = self._sessions.get(_hash(secret)) if secret else None
        if session is not None and self._clock() >= session.expires_at:
            self.close(secret)
            return None
        return session

    def close(self, secret: str) -> None:
        """End a session."""
        self._sessions.pop(_hash(secret), None)


class SessionCookies:
    """Puts the secret of a session into a cookie, and finds the session of a request.

    With `is_public_tls`, browsers reach the gateway over TLS even if a proxy ends it.
    """

    def __init__(self, sessions: BrowserSessions, *, is_public_tls: bool = False) -> None:
        self._sessions = sessions
        self._is_public_tls = is_public_tls

    def find(self, request: Request) -> BrowserSession | None:
        """The session of a request."""
        return self._sessions.find(request.cookies.get(self._name(request), ""))

    def is_own_form(self, request: Request, csrf: object) -> bool:
        """Whether a POST comes from a form that this gateway gave to this session."""
        session = self.find(request)
        if session is None or not isinstance(csrf, str):
            return False
        return hmac.compare_digest(csrf.encode(errors="replace"), session.csrf.encode())

    def log_in(self, request: Request, response: Response, identity: Identity) -> None:
        """Open a session, in place of the one that the browser may have."""
        self._sessions.close(request.cookies.get(self._name(request), ""))
        response.set_cookie(
            self._name(request),
            self._sessions.open(identity),
            max_age=int(self._sessions.lifetime_seconds),
            httponly=True,
            samesite="strict",
            secure=self.is_secure(request),
        )

    def log_out(self, request: Request, response: Response) -> None:
        """End the session and delete its cookie."""
        name = self._name(request)
        self._sessions.close(request.cookies.get(name, ""))
        response.delete_cookie(
            name, httponly=True, samesite="strict", secure=self.is_secure(request)
        )

    def is_secure(self, request: Request) -> bool:
        """Whether the browser uses TLS, and its cookies must not go over anything else."""
        return self._is_public_tls or request.url.scheme == "https"

    def _name(self, request: Request) -> str:
        # Browsers send cookies to all ports of a host, so the port is in the name. The prefix keeps
        # other hosts and plain HTTP from setting it.
        server = request.scope.get("server") or ("", 0)
        return f"{'__Host-' if self.is_secure(request) else ''}{_COOKIE}_{server[1]}"
