"""A store in memory that lives as long as its process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Lock

from ..errors import StoreError
from .contract import Clock, Record, StoreLimits, check_entry


class MemoryStore:
    """Keeps texts in this process; thread-safe."""

    def __init__(self, *, limits: StoreLimits | None = None, clock: Clock = time.time) -> None:
        self._limits = limits or StoreLimits()
        self._clock = clock
        self._records: dict[str, Record] | None = {}
        self._lock = Lock()

    def get(self, key: str) -> Record | None:
        """The record of a key, or None."""
        check_entry(key)
        with self._lock:
            return self._unless_expired(self._require_open().get(key))

    def put(self, key: str, text: str, *, expected: int) -> Record | None:
        """Write if the version is still the expected one (0: no record yet)."""
        check_entry(key, text)
        with self._lock:
            records, now = self._require_open(), self._clock()
            old = self._unless_expired(records.get(key))
            if (old.version if old else 0) != expected:
                return None
            new = Record(key, expected + 1, text, old.created if old else now, now)
            # Remove and insert: dictionaries keep insertion order, so the last written is last.
            records.pop(key, None)
            records[key] = new
            for oldest in list(self._overflow_keys()):
                del records[oldest]
            return new

    def delete(self, key: str) -> bool:
        """Delete a key; whether it existed."""
        check_entry(key)
        with self._lock:
            return self._unless_expired(self._require_open().pop(key, None)) is not None

    def expire(self) -> int:
        """Delete expired records; how many there were."""
        with self._lock:
            records = self._require_open()
            expired = [k for k, r in records.items() if self._unless_expired(r) is None]
            for key in expired:
                del records[key]
            return len(expired)

    def list(self, *, limit: int = 100) -> tuple[Record, ...]:
        """The records, last written first."""
        with self._lock:
            alive = (r for r in reversed(self._require_open().values()) if self._unless_expired(r))
            return tuple(r for r, _ in zip(alive, range(limit), strict=False))

    def close(self) -> None:
        """Drop all records; a closed store raises StoreError."""
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
        """The least recently written keys beyond the cap."""
        cap = self._limits.cap
        if cap is not None:
            records = self._require_open()
            yield from (k for k, _ in zip(records, range(len(records) - cap), strict=False))
