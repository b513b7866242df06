"""Token buckets: how many calls a minute a principal or a server gets."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

# Beyond this many keys the least recently used bucket is dropped, which only makes its owner's
# bucket full again.
MAX_BUCKETS = 10_000
# A bucket holds what accumulates in this time: a burst of so much is allowed after a quiet while.
_BURST_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket at one moment."""

    tokens: float
    time: float

    def refill(self, *, per_second: float, capacity: float, now: float) -> Bucket:
        """The bucket at a later moment; a clock that went back adds nothing."""
        gained = max(0.0, now - self.time) * per_second
        return Bucket(min(capacity, self.tokens + gained), max(now, self.time))


class BucketStore(Protocol):
    """Where buckets are kept; a shared store lets several gateways enforce one limit."""

    def take(self, key: str, *, per_second: float, capacity: float, now: float) -> float:
        """Take one token; the seconds to wait if there is none, or else 0."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


class MemoryBuckets:
    """Buckets of this process, the most recently used ones."""

    def __init__(self, *, capacity: int = MAX_BUCKETS) -> None:
        self._capacity = capacity
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, key: str, *, per_second: float, capacity: float, now: float) -> float:
        """Take one token; the seconds to wait if there is none, or else 0."""
        known = self._buckets.get(key, Bucket(capacity, now))
        bucket = known.refill(per_second=per_second, capacity=capacity, now=now)
        is_granted = bucket.tokens >= 1
        self._buckets[key] = Bucket(bucket.tokens - 1, now) if is_granted else bucket
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._capacity:
            self._buckets.popitem(last=False)
        return 0.0 if is_granted else (1 - bucket.tokens) / per_second

    def close(self) -> None:
        """Forget all buckets."""
        self._buckets.clear()


class RateLimit:
    """A limit per minute and key, over a store of buckets."""

    def __init__(self, store: BucketStore, *, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def take(self, key: str, *, per_minute: float) -> float:
        """Count one call; the seconds to wait if it is over the limit, or else 0."""
        if per_minute <= 0:
            return 0.0
        per_second = per_minute / 60
        return self._store.take(
            key,
            per_second=per_second,
            capacity=max(1.0, per_second * _BURST_SECONDS),
            now=self._clock(),
        )
