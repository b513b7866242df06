"""The conversation itself, kept with its session."""

from __future__ import annotations

from collections.abc import Sequence

from ..models.messages import Message, dump, load

SECTION = "conversation"


def kept(text: str | None) -> tuple[Message, ...]:
    """The messages of a conversation so far; none if it is new."""
    return load(text) if text else ()


def appended(text: str | None, messages: Sequence[Message]) -> str:
    """The kept text with some more messages, joined as text so that length costs nothing.

    Whoever else wrote to the conversation meanwhile keeps his place in it.
    """
    new = dump(messages)
    if not text or text == "[]":
        return new
    return f"{text[:-1]},{new[1:]}" if messages else text
