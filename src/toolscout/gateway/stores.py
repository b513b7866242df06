"""Conversations that are kept, and those that end with their request."""

from __future__ import annotations

from ..store.contract import Limits, Record, Store
from ..store.memory import MemoryStore

_MOST_PASSING = 256


class Divided:
    """A store that forgets ids beginning with `~`, which nobody will ever ask for again."""

    def __init__(self, lasting: Store) -> None:
        self._lasting = lasting
        self._passing = MemoryStore(limits=Limits(cap=_MOST_PASSING))

    def _of(self, key: str) -> Store:
        return self._passing if key.startswith("~") else self._lasting

    def get(self, key: str) -> Record | None:
        """What is kept under a key."""
        return self._of(key).get(key)

    def put(self, key: str, text: str, *, expected: int) -> Record | None:
        """Write if the version is still the expected one."""
        return self._of(key).put(key, text, expected=expected)

    def delete(self, key: str) -> bool:
        """Forget a key."""
        return self._of(key).delete(key)

    def expire(self) -> int:
        """Drop what is too old."""
        return self._lasting.expire()

    def list(self, *, limit: int = 100) -> tuple[Record, ...]:
        """What lasts, last written first."""
        return self._lasting.list(limit=limit)

    def close(self) -> None:
        """Close both."""
        self._passing.close()
        self._lasting.close()
