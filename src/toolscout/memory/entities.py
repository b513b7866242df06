"""Entities found in tool results, and the window of the most recent ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

WINDOW = 10


@dataclass(frozen=True, slots=True)
class Entity:
    """Something with an identity, such as a page, an image or an order, and when it was seen.

    Timestamps sort as text in order of time; an extractor may leave it empty.
    """

    type: str
    id: str
    name: str
    timestamp: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The identity: two mentions with the same key are the same entity."""
        return self.type, self.id


def format_timestamp(now: float) -> str:
    """A point in time as ISO 8601 in UTC."""
    # A fixed number of digits, so that timestamps sort as text.
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def merge_entities(
    existing: Iterable[Entity], new: Iterable[Entity], *, window: int = WINDOW
) -> tuple[Entity, ...]:
    """The latest mention of each entity, newest first, up to the size of the window.

    Of two mentions with the same timestamp the existing one stays.
    """
    latest: dict[tuple[str, str], Entity] = {}
    for entity in (*existing, *new):
        known = latest.get(entity.key)
        if known is None or entity.timestamp > known.timestamp:
            latest[entity.key] = entity
    ordered = sorted(latest.values(), key=lambda e: e.timestamp, reverse=True)
    return tuple(ordered[:window])
