"""Exponential back-off for a failing server, as a pure value."""

from __future__ import annotations

import math
from dataclasses import dataclass

_FIRST_WAIT_SECONDS = 1.0
_MAX_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ServerBackoff:
    """Consecutive failures of a server; each one doubles the wait before the next attempt."""

    failures: int = 0
    retry_at: float = 0.0
    reason: str = ""
    failing_since: float = 0.0
    needs_login: bool = False

    def record_failure(
        self, reason: str, *, now: float, needs_login: bool = False
    ) -> ServerBackoff:
        """Count one more failure and wait longer."""
        # The exponent is bounded so that a server that is down for days does not make huge numbers.
        wait = min(_MAX_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2 ** min(self.failures, 10))
        return ServerBackoff(
            failures=self.failures + 1,
            retry_at=now + wait,
            reason=reason,
            failing_since=self.failing_since if self.failures else now,
            needs_login=needs_login,
        )

    def record_success(self) -> ServerBackoff:
        """Start again without failures."""
        return ServerBackoff()

    def may_try(self, *, now: float) -> bool:
        """Whether the wait is over."""
        return now >= self.retry_at

    def wait_seconds(self, *, now: float) -> float:
        """Seconds until the next attempt is allowed."""
        return max(0.0, self.retry_at - now)

    def retry_message(self, *, now: float) -> str:
        """A sentence that says when the next attempt is allowed."""
        seconds = max(1, math.ceil(self.wait_seconds(now=now)))
        return f"The next attempt is in {'a second' if seconds == 1 else f'{seconds} seconds'}."
