"""The store that lives as long as the process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Lock

from ..errors import StoreError
from .contract import Clock, Record, StoreLimits, check_entry


class MemoryStore:
    """Keeps texts in this process; safe from many threads."""

    def __init__(self, *, limits: StoreLimits | None = None, clock: Clock = time.time) -> None:
        self._limits = limits or StoreLimits()
        self._clock = clock
        self._records: dict[str, Record] | None = {}
        self._lock = Lock()

    def get(self, key: str) -> Record | None:
        """What is kept under a key."""
        check_entry(key)
        with self._lock:
            return self._unless_expired(self._require_open().get(key))

    def put(self, key: str, text: str, *, expected: int) -> Record | None:
        """Write if the version is still the expected one (0: not there yet)."""
        check_entry(key, text)
        with self._lock:
            records, now = self._require_open(), self._clock()
            old = self._unless_expired(records.get(key))
            if (old.version if old else 0) != expected:
                return None
            new = Record(key, expected + 1, text, old.created if old else now, now)
            records.pop(key, None)
            records[key] = new
            for oldest in list(self._overflow_keys()):
                del records[oldest]
            return new

    def delete(self, key: str) -> bool:
        """Forget a key; whether there was anything."""
        check_entry(key)
        with self._lock:
            return self._unless_expired(self._require_open().pop(key, None)) is not None

    def expire(self) -> int:
        """Drop what is too old, and say how many that were."""
        with self._lock:
            records = self._require_open()
            gone = [k for k, r in records.items() if self._unless_expired(r) is None]
            for key in gone:
                del records[key]
            return len(gone)

    def list(self, *, limit: int = 100) -> tuple[Record, ...]:
        """What is kept, last written first."""
        with self._lock:
            alive = (r for r in reversed(self._require_open().values()) if self._unless_expired(r))
            return tuple(r for r, _ in zip(alive, range(limit), strict=False))

    def close(self) -> None:
        """Forget everything; a closed store refuses everything."""
        with self._lock:
            self._records = None

    def _require_open(self) -> dict[str, Record]:
        if self._records is None:
            raise StoreError("The store is closed.", hint="Open a new one.")
        return self._records

    def _unless_expired(self, record: Record | None) -> Record | None:
        ttl = self._limits.ttl_seconds
        if record is None or ttl is None or self._clock() - record.updated < ttl:
            return record
        return None

    def _overflow_keys(self) -> Iterator[str]:
        """The keys that were not written for longest; dictionaries keep the order of writing."""
        cap = self._limits.cap
        if cap is not None:
            records = self._require_open()
            yield from (k for k, _ in zip(records, range(len(records) - cap), strict=False))
