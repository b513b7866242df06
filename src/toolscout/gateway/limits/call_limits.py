"""Limits on calls: how many run at a time, in all and for each principal, and how many a minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ...store.rate_limits import RateLimit
from .limit_settings import LimitSettings
from .refusals import OverLimitError, Refusal

_TOO_MANY_CALLS = Refusal(503, "The gateway is busy: too many calls are running. Try again later.")
_TOO_MANY_FROM_PRINCIPAL = Refusal(
    429, "Too many of your calls are running. Wait until some have ended."
)
_TOO_MANY_NOTIFICATIONS = Refusal(429, "Too many notifications in a minute. Try again later.")
_TOO_MANY_A_MINUTE = Refusal(429, "Too many calls in a minute. Try again later.")


class CallPermit:
    """The permission to run a call, given back when nobody holds it any more.

    The HTTP request holds it, and so does the call: a client that disconnects does not end a call
    that it can resume.
    """

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back = give_back
        self._holders = 0

    def __enter__(self) -> None:
        self._holders += 1

    def __exit__(self, *_: object) -> None:
        self._holders -= 1
        if not self._holders:
            self._give_back()


class CallLimits:
    """Counts the calls that run, and refuses those that are too many."""

    def __init__(self, read_limits: Callable[[], LimitSettings], *, rates: RateLimit) -> None:
        self._read_limits = read_limits
        self._rates = rates
        self._running = 0
        self._per_principal: Counter[str] = Counter()

    @property
    def running(self) -> int:
        """How many calls run now."""
        return self._running

    def admit(self, principal: str) -> CallPermit:
        """Permit a call of a principal, empty for an anonymous one; raises if there are too many.

        Anonymous callers cannot be distinguished, so only the limit for all applies to them.
        """
        limits = self._read_limits()
        if self._running >= limits.calls:
            raise OverLimitError(_TOO_MANY_CALLS)
        if principal:
            if self._per_principal[principal] >= limits.calls_per_principal:
                raise OverLimitError(_TOO_MANY_FROM_PRINCIPAL)
            self.count(principal)
        self._running += 1
        self._per_principal[principal] += 1
        return CallPermit(lambda: self._release(principal))

    def count(self, principal: str) -> None:
        """Count a request of a principal in its minute; raises if there are too many."""
        if principal:
            per_minute = self._read_limits().calls_per_minute
            if wait_seconds := self._rates.take(f"principal {principal}", per_minute=per_minute):
                raise OverLimitError(_TOO_MANY_A_MINUTE, retry_seconds=wait_seconds)

    def count_notification(self, principal: str) -> None:
        """Count a message of a principal that is not a call; raises if there are too many."""
        if principal:
            # Apart from calls, so that a client that made all its calls can still cancel one.
            per_minute = self._read_limits().notifications_per_minute
            key = f"notifications of principal {principal}"
            if wait_seconds := self._rates.take(key, per_minute=per_minute):
                raise OverLimitError(_TOO_MANY_NOTIFICATIONS, retry_seconds=wait_seconds)

    def _release(self, principal: str) -> None:
        self._running -= 1
        self._per_principal[principal] -= 1
        if not self._per_principal[principal]:
            del self._per_principal[principal]
