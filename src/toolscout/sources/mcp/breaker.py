"""When to try a failing server again: a pure value, told the time."""

from __future__ import annotations

import math
from dataclasses import dataclass

_FIRST_WAIT_SECONDS = 1.0
_MAX_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Breaker:
    """Counts failures in a row; each one doubles the wait before the next attempt."""

    failures: int = 0
    retry_at: float = 0.0
    reason: str = ""

    def record_failure(self, reason: str, *, now: float) -> Breaker:
        """One more failure: wait longer."""
        wait = min(_MAX_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2 ** min(self.failures, 10))
        return Breaker(failures=self.failures + 1, retry_at=now + wait, reason=reason)

    def record_success(self) -> Breaker:
        """All is well again."""
        return Breaker()

    def may_try(self, *, now: float) -> bool:
        """Whether the wait is over."""
        return now >= self.retry_at

    def wait_seconds(self, *, now: float) -> float:
        """How long until the next attempt."""
        return max(0.0, self.retry_at - now)

    def retry_message(self, *, now: float) -> str:
        """When the next attempt is, in words."""
        seconds = max(1, math.ceil(self.wait_seconds(now=now)))
        return f"It is tried again in {'a second' if seconds == 1 else f'{seconds} seconds'}."
