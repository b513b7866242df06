"""What happened, as plain records; a sink listens, and the core never knows who."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: a stable `kind`, the session it belongs to, and its facts."""

    kind: str
    session: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


Sink = Callable[[Event], None]
"""Anything that takes events. It must be quick and must not raise."""


def ignore(event: Event) -> None:
    """The sink that nobody listens to."""
