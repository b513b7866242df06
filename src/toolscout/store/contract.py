"""The contract of every store: texts by key, with optimistic concurrency by version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..errors import StoreError

Clock = Callable[[], float]
"""Returns seconds since the epoch; passed in, so that tests control the time."""

DEFAULT_MAX_RECORDS = 4096
MAX_KEY_CHARS = 512


@dataclass(frozen=True, slots=True)
class Record:
    """One stored text; `version` counts its writes, times are seconds since the epoch."""

    key: str
    version: int
    text: str
    created: float
    updated: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLimits:
    """How many records are kept and for how long; None means no limit."""

    cap: int | None = DEFAULT_MAX_RECORDS
    ttl_seconds: float | None = None


class Store(Protocol):
    """Keeps texts by key, without interpreting them.

    An expired record counts as missing. A new key beyond the cap drops the least recently written
    records. Failures raise StoreError and change nothing.
    """

    def get(self, key: str) -> Record | None:
        """The record of a key, or None."""
        ...

    def put(self, key: str, text: str, *, expected: int) -> Record | None:
        """Write if the version is still the expected one (0: no record yet).

        None means that another writer was first: read again, and repeat the change.
        """
        ...

    def delete(self, key: str) -> bool:
        """Delete a key; whether it existed."""
        ...

    def expire(self) -> int:
        """Delete expired records; how many there were."""
        ...

    def list(self, *, limit: int = 100) -> tuple[Record, ...]:
        """The records, last written first."""
        ...

    def close(self) -> None:
        """Release all files; a closed store raises StoreError."""
        ...


def check_entry(key: object, text: str = "") -> None:
    """Raise StoreError for a key or text that not every store can hold."""
    # Keys come from clients. Half a surrogate pair is not UTF-8, and functions of SQLite may end a
    # text at NUL.
    if not (isinstance(key, str) and 0 < len(key) <= MAX_KEY_CHARS and _is_valid_key(key)):
        raise StoreError(
            f"{str(key)[:40]!r} cannot be an id.",
            hint=f"Use 1 to {MAX_KEY_CHARS} characters of Unicode text without NUL.",
        )
    if not _is_unicode(text):
        raise StoreError(
            f"The text for {key[:40]!r} contains half a surrogate pair.",
            hint="Store JSON that can be written as UTF-8.",
        )


def _is_valid_key(key: str) -> bool:
    return "\0" not in key and _is_unicode(key)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
