"""The contract of stream events: messages that a client may still ask for, at any gateway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

MAX_PER_STREAM = 100
"""How many of the last messages of a stream are kept, besides its first."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event of a stream, with its number in the stream, as bytes without a meaning here."""

    stream: str
    number: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLimits:
    """For how long events are kept, and how many of all streams."""

    max_age_seconds: float = 1_800.0
    max_bytes: int = 64 * 1024 * 1024
    max_events: int = 100_000


class StreamEvents(Protocol):
    """Events of all processes that share the store; failures raise StoreError.

    They are a help for clients that lost their connection: a crash of the machine may lose them.
    """

    def append(self, events: Sequence[StoredEvent]) -> None:
        """Add events; one that is there already is not replaced."""
        ...

    def read(self, stream: str) -> tuple[StoredEvent, ...]:
        """The events of a stream that are kept, oldest first."""
        ...

    def prune(self) -> int:
        """Delete what is over the limits, the oldest first; how many events that were."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


def find_long_streams(events: Sequence[StoredEvent]) -> dict[str, int]:
    """The streams with more events than are kept, each with the first number to keep."""
    newest: dict[str, int] = {}
    for event in events:
        newest[event.stream] = max(event.number, newest.get(event.stream, 0))
    return {
        stream: number - MAX_PER_STREAM + 1
        for stream, number in newest.items()
        if number > MAX_PER_STREAM
    }
