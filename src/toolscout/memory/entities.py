"""Things that tool results spoke of, and the window of the latest ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

WINDOW = 10


@dataclass(frozen=True, slots=True)
class Entity:
    """A page, an image, an order: something with an identity, and when it was last seen.

    `timestamp` is written so that later is also greater as text; an extractor may leave it out.
    """

    type: str
    id: str
    name: str
    timestamp: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What makes two mentions the same thing."""
        return self.type, self.id


def format_timestamp(now: float) -> str:
    """A point in time as ISO 8601 with a fixed number of digits."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def merge_entities(
    existing: Iterable[Entity], new: Iterable[Entity], *, window: int = WINDOW
) -> tuple[Entity, ...]:
    """The newest mention of each thing, newest first, as many as the window holds.

    Of two mentions of one thing at the same moment the existing one stays.
    """
    latest: dict[tuple[str, str], Entity] = {}
    for entity in (*existing, *new):
        known = latest.get(entity.key)
        if known is None or entity.timestamp > known.timestamp:
            latest[entity.key] = entity
    ordered = sorted(latest.values(), key=lambda e: e.timestamp, reverse=True)
    return tuple(ordered[:window])
