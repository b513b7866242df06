"""Shorten a long conversation without separating a call from its result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..catalog.result import Result
from ..disclosure.reply import LOADED_LINE
from ..disclosure.synthetic_search import CLOSING_TEXT
from ..disclosure.view import View
from ..models.messages import (
    Call,
    CallResult,
    Message,
    NativeBlock,
    Part,
    Text,
    assistant_message,
    build_call_result,
    results_message,
)


def restore_tool_references(messages: Sequence[Message], view: View) -> tuple[Message, ...]:
    """The conversation in which every loaded tool of the view can be called; mostly the same one.

    What is missing comes behind the first message, which every cut leaves where it is.
    """
    again = view.references_to_restore(_find_references(messages)) if messages else None
    if again is None:
        return tuple(messages)
    call = Call(again.id, again.search, json.dumps(again.arguments, ensure_ascii=False))
    said = Result.of(f"{LOADED_LINE}{', '.join(again.tools)}")
    told = [
        assistant_message(call),
        results_message(build_call_result(call, said, native=again.answer)),
    ]
    place = exchange_end(messages, 0)
    if place < len(messages) and messages[place].role != "assistant":
        told.append(assistant_message(Text(CLOSING_TEXT)))
    return (*messages[:place], *told, *messages[place:])


def _find_references(messages: Sequence[Message]) -> Iterator[str]:
    """The tools that results refer to."""
    for native in (r.native for m in messages for r in m.results if r.native):
        blocks: list[dict[str, Any]] = json.loads(native)
        yield from (b["tool_name"] for b in blocks if b.get("type") == "tool_reference")


Compactor = Callable[[Sequence[Message]], tuple[Message, ...]]
"""Gives the conversation to go on with; the same one if nothing needs to go."""


def keep_all(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Everything stays."""
    return tuple(messages)


def by_count(*, after: int, keep: int) -> Compactor:
    """Over `after` messages, the first, the user's newest and the last `keep` stay.

    It cuts in one go and then lets the conversation grow again, so that a provider's cache of
    the prefix is lost once in a while and not at every step.
    """

    def trim(messages: Sequence[Message]) -> tuple[Message, ...]:
        if len(messages) <= after:
            return tuple(messages)
        return _drop_middle(messages, len(messages) - keep)

    return trim


def by_tokens(*, budget: int, count: Callable[[str], int], keep: float = 0.5) -> Compactor:
    """Over a budget of tokens, the first, the user's newest and the newest within a share stay."""

    def trim(messages: Sequence[Message]) -> tuple[Message, ...]:
        texts = [_message_text(message) for message in messages]
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
        return _drop_middle(messages, start)

    return trim


def _message_text(message: Message) -> str:
    """What a provider gets to read of a message."""
    return "\n".join(_part_text(part) for part in message.parts)


def _part_text(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case Call():
            return f"{part.name} {part.arguments}"
        case CallResult():
            return part.native or part.result.text
        case NativeBlock(_, block):
            return block


def _drop_middle(messages: Sequence[Message], start: int) -> tuple[Message, ...]:
    """The first message, and those from `start` on, or a little earlier.

    However large it is, what the model must answer now stays; and so does what the user asked
    last, without which a long run would forget what it is for.
    """
    head = exchange_end(messages, 0)
    start = max(head, min(start, len(messages) - 1))
    while start > head and messages[start].results:
        start -= 1
    asked = [m for m in messages[head:start] if m.role == "user"][-1:]
    if any(m.role == "user" for m in messages[start:]):
        asked = []
    return (*messages[:head], *asked, *messages[start:])


def exchange_end(messages: Sequence[Message], place: int) -> int:
    """Where the message at a place ends, its results included."""
    end = place + 1
    while messages[place].calls and end < len(messages) and messages[end].results:
        end += 1
    return end
