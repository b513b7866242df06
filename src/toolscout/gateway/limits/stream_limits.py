"""Limits on the streams of `subscriptions/listen`, which stay open for as long as a client listens.

They are not counted as calls: a client that only listens would take the place of one that works.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

from .limit_settings import LimitSettings
from .refusals import OverLimitError, Refusal

_TOO_MANY_STREAMS = Refusal(503, "Too many clients listen. Try again later.")
_TOO_MANY_OF_PRINCIPAL = Refusal(
    429, "Too many of your streams are open. Close some of them before you listen again."
)


class StreamLimits:
    """Counts open streams, and refuses those that are too many."""

    def __init__(self, read_limits: Callable[[], LimitSettings]) -> None:
        self._read_limits = read_limits
        self._open: Counter[str] = Counter()

    @contextmanager
    def admit(self, principal: str) -> Generator[None]:
        """Count a stream while the block runs; raises if there are too many.

        Anonymous callers cannot be distinguished, so only the limit for all applies to them.
        """
        limits = self._read_limits()
        if self._open.total() >= limits.streams:
            raise OverLimitError(_TOO_MANY_STREAMS)
        if principal and self._open[principal] >= limits.streams_per_principal:
            raise OverLimitError(_TOO_MANY_OF_PRINCIPAL)
        self._open[principal] += 1
        try:
            yield
        finally:
            self._open[principal] -= 1
            if not self._open[principal]:
                del self._open[principal]
