"""Token buckets that several gateways share, with a fallback while the database is away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ..errors import StoreError
from .rate_limits import BucketStore, MemoryBuckets

log = logging.getLogger(__name__)
# While the database is away, each call would otherwise wait for it.
_RETRY_SECONDS = 10.0


class SharedBuckets:
    """Buckets in a shared store; while it does not answer, buckets of this process.

    The time is that of the wall clock, since the clocks that callers give differ between machines.
    """

    def __init__(
        self,
        shared: BucketStore,
        *,
        clock: Callable[[], float] = time.time,
        retry_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shared = shared
        self._clock = clock
        self._retry_clock = retry_clock
        self._local = MemoryBuckets()
        self._retry_at = float("-inf")

    def take(self, key: str, *, per_second: float, capacity: float, now: float) -> float:
        """Take one token; the seconds to wait if there is none, or else 0."""
        del now  # of a clock that the others do not have
        time_now = self._clock()
        if self._retry_clock() >= self._retry_at:
            try:
                return self._shared.take(
                    key, per_second=per_second, capacity=capacity, now=time_now
                )
            except StoreError as error:
                log.warning("Limits per minute count in each gateway for now: %s", error)
                self._retry_at = self._retry_clock() + _RETRY_SECONDS
        return self._local.take(key, per_second=per_second, capacity=capacity, now=time_now)

    def close(self) -> None:
        """Release the connections."""
        self._shared.close()
