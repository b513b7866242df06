"""The contract every store keeps: texts by key, and no writer loses another's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..errors import StoreError

Clock = Callable[[], float]
"""Seconds since the epoch; passed in, so that the core never looks at a clock by itself."""

DEFAULT_MAX_RECORDS = 4096
MAX_KEY_CHARS = 512


@dataclass(frozen=True, slots=True)
class Record:
    """One kept text: `version` counts its writes, times are seconds since the epoch."""

    key: str
    version: int
    text: str
    created: float
    updated: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLimits:
    """How much is kept and for how long; None means without end."""

    cap: int | None = DEFAULT_MAX_RECORDS
    ttl_seconds: float | None = None


class Store(Protocol):
    """Keeps JSON texts by key; knows nothing of what they say.

    An expired record is as good as gone. Writing a new key past the cap drops the records that
    were not written for longest. Failures raise StoreError and leave everything as it was.
    """

    def get(self, key: str) -> Record | None:
        """What is kept under a key."""
        ...

    def put(self, key: str, text: str, *, expected: int) -> Record | None:
        """Write if the version is still the expected one (0: not there yet).

        None says that another writer was first: read again, and repeat the change on that.
        """
        ...

    def delete(self, key: str) -> bool:
        """Forget a key; whether there was anything."""
        ...

    def expire(self) -> int:
        """Drop what is too old, and say how many that were."""
        ...

    def list(self, *, limit: int = 100) -> tuple[Record, ...]:
        """What is kept, last written first."""
        ...

    def close(self) -> None:
        """Let go of files; a closed store refuses everything."""
        ...


def check_entry(key: object, text: str = "") -> None:
    """Refuse a key or a text that a store cannot hold, and say what would do."""
    if not (isinstance(key, str) and 0 < len(key) <= MAX_KEY_CHARS and _is_valid_key(key)):
        raise StoreError(
            f"{str(key)[:40]!r} cannot be an id.",
            hint=f"Use 1 to {MAX_KEY_CHARS} characters of Unicode text without NUL.",
        )
    if not _is_unicode(text):
        raise StoreError(
            f"The text for {key[:40]!r} has half a surrogate pair in it.",
            hint="Keep JSON written as UTF-8.",
        )


def _is_valid_key(key: str) -> bool:
    return "\0" not in key and _is_unicode(key)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
