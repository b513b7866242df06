"""The random values of one OpenID login (state, nonce, PKCE), kept in a cookie of the browser."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_LIFETIME_SECONDS = 600
_MAX_USED = 1_000
_PARTS = 3


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """One login that began; `cookie` binds it to a browser."""

    cookie: str
    state: str
    nonce: str
    verifier: str

    @property
    def challenge(self) -> str:
        """The PKCE challenge (S256, RFC 7636)."""
        return _encode(hashlib.sha256(self.verifier.encode()).digest())


class LoginAttempts:
    """Makes and recognises attempts.

    Nothing is stored for an attempt, so beginning many of them exhausts nothing: its values are
    derived from the cookie with a key of this process.
    """

    lifetime_seconds = _LIFETIME_SECONDS

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._key = secrets.token_bytes(32)
        self._clock = clock
        self._used: OrderedDict[str, None] = OrderedDict()

    def begin(self) -> LoginAttempt:
        """A new attempt."""
        text = f"{secrets.token_urlsafe(32)}.{int(self._clock()) + _LIFETIME_SECONDS}"
        return self._derive(f"{text}.{self._sign('cookie', text)}")

    def resume(self, cookie: str, state: str) -> LoginAttempt | None:
        """The attempt that a browser comes back to, once; None if it is not this browser's."""
        parts = cookie.split(".")
        if len(parts) != _PARTS or cookie in self._used:
            return None
        text = f"{parts[0]}.{parts[1]}"
        is_ours = _is_same(parts[2], self._sign("cookie", text))
        if not is_ours or int(parts[1]) <= self._clock():
            return None
        attempt = self._derive(cookie)
        if not _is_same(state, attempt.state):
            return None
        self._used[cookie] = None
        if len(self._used) > _MAX_USED:
            self._used.popitem(last=False)
        return attempt

    def _derive(self, cookie: str) -> LoginAttempt:
        state, nonce, verifier = (self._sign(n, cookie) for n in ("state", "nonce", "verifier"))
        return LoginAttempt(cookie, state, nonce, verifier)

    def _sign(self, purpose: str, text: str) -> str:
        return _encode(hmac.digest(self._key, f"{purpose}\0{text}".encode(), "sha256"))


def _encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _is_same(left: str, right: str) -> bool:
    return hmac.compare_digest(left.encode(errors="replace"), right.encode())
