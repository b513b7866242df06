"""Shortening a long conversation without ever parting a call from its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..models.messages import Call, CallResult, Message, Native, Part, Text

Trimmer = Callable[[Sequence[Message]], tuple[Message, ...]]
"""Gives the conversation to go on with; the same one if nothing needs to go."""


def untrimmed(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Everything stays."""
    return tuple(messages)


def by_count(*, after: int, keep: int) -> Trimmer:
    """Over `after` messages, the first, the user's newest and the last `keep` stay.

    It cuts in one go and then lets the conversation grow again, so that a provider's cache of
    the prefix is lost once in a while and not at every step.
    """

    def trim(messages: Sequence[Message]) -> tuple[Message, ...]:
        if len(messages) <= after:
            return tuple(messages)
        return _shortened(messages, len(messages) - keep)

    return trim


def by_tokens(*, budget: int, count: Callable[[str], int], keep: float = 0.5) -> Trimmer:
    """Over a budget of tokens, the first, the user's newest and the newest within a share stay."""

    def trim(messages: Sequence[Message]) -> tuple[Message, ...]:
        texts = [_words(message) for message in messages]
        # No text has more tokens than bytes, so a short conversation need not be counted.
        if sum(len(text.encode()) for text in texts) <= budget:
            return tuple(messages)
        sizes = [count(text) for text in texts]
        if sum(sizes) <= budget:
            return tuple(messages)
        room = budget * keep - sizes[0]
        start = len(messages)
        while start > 1 and sizes[start - 1] <= room:
            start -= 1
            room -= sizes[start]
        return _shortened(messages, start)

    return trim


def _words(message: Message) -> str:
    """What a provider gets to read of a message."""
    return "\n".join(_said(part) for part in message.parts)


def _said(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case Call():
            return f"{part.name} {part.arguments}"
        case CallResult():
            return part.native or part.result.text
        case Native(_, block):
            return block


def _shortened(messages: Sequence[Message], start: int) -> tuple[Message, ...]:
    """The first message, and those from `start` on, or a little earlier.

    However large it is, what the model must answer now stays; and so does what the user asked
    last, without which a long run would forget what it is for.
    """
    head = closed(messages, 0)
    start = max(head, min(start, len(messages) - 1))
    while start > head and messages[start].results:
        start -= 1
    asked = [m for m in messages[head:start] if m.role == "user"][-1:]
    if any(m.role == "user" for m in messages[start:]):
        asked = []
    return (*messages[:head], *asked, *messages[start:])


def closed(messages: Sequence[Message], place: int) -> int:
    """Where the message at a place ends, its results included."""
    end = place + 1
    while messages[place].calls and end < len(messages) and messages[end].results:
        end += 1
    return end
