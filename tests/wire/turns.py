"""What the service is told to answer, in no dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Say:
    """A reply: words, calls (name and arguments as raw text), blocks of the dialect's own.

    After so many frames it may be cut (the connection breaks), stopped (it closes well, but the
    rest is missing) or garbled.
    """

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    natives: tuple[Mapping[str, Any], ...] = ()
    input_tokens: int = 100
    output_tokens: int = 20
    cached_tokens: int = 0
    stop: str = ""
    cut_after: int | None = None
    stop_after: int | None = None
    garble_after: int | None = None


@dataclass(frozen=True)
class Refuse:
    """An error reply with its status; `in_stream` sends it as an event after a good start."""

    status: int
    message: str = "no"
    kind: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    in_stream: bool = False


@dataclass(frozen=True)
class Hang:
    """Take the request and never answer."""


Plan = Say | Refuse | Hang


def pieces(text: str, size: int = 5) -> list[str]:
    """Text cut as finely as a real stream cuts it."""
    return [text[i : i + size] for i in range(0, len(text), size)]
