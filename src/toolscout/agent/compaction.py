"""Compaction: shortens a long conversation without separating a call from its result."""

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
    """Add a synthetic search for loaded tools whose references were cut from the messages."""
    search = view.references_to_restore(_find_references(messages)) if messages else None
    if search is None:
        return tuple(messages)
    call = Call(search.id, search.search, json.dumps(search.arguments, ensure_ascii=False))
    result = Result.of(f"{LOADED_LINE}{', '.join(search.tools)}")
    added = [
        assistant_message(call),
        results_message(build_call_result(call, result, native=search.answer)),
    ]
    # After the first message: a request must begin with the user, and every cut leaves that
    # message in place, so that the next cut writes the same bytes (docs/decisions/surfaces.md).
    position = exchange_end(messages, 0)
    if position < len(messages) and messages[position].role != "assistant":
        added.append(assistant_message(Text(CLOSING_TEXT)))
    return (*messages[:position], *added, *messages[position:])


def _find_references(messages: Sequence[Message]) -> Iterator[str]:
    """The names of tools that results refer to."""
    for native in (r.native for m in messages for r in m.results if r.native):
        blocks: list[dict[str, Any]] = json.loads(native)
        yield from (b["tool_name"] for b in blocks if b.get("type") == "tool_reference")


Compactor = Callable[[Sequence[Message]], tuple[Message, ...]]
"""Returns the shortened conversation, or the same one if it is short enough."""


def keep_all(messages: Sequence[Message]) -> tuple[Message, ...]:
    """A compactor that drops nothing."""
    return tuple(messages)


def by_count(*, after: int, keep: int) -> Compactor:
    """Above `after` messages, keep the first, the user's newest and the last `keep`."""

    # Keeps fewer than `after`, so that the conversation can grow again: each cut costs the
    # provider's prefix cache, and this way that happens once in a while and not at every step.
    def compact(messages: Sequence[Message]) -> tuple[Message, ...]:
        if len(messages) <= after:
            return tuple(messages)
        return _drop_middle(messages, len(messages) - keep)

    return compact


def by_tokens(*, budget: int, count: Callable[[str], int], keep: float = 0.5) -> Compactor:
    """Above a budget of tokens, keep the first, the user's newest and a share of the newest."""

    def compact(messages: Sequence[Message]) -> tuple[Message, ...]:
        texts = [_message_text(message) for message in messages]
        # A text has at most as many tokens as bytes, so a short conversation needs no counting.
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

    return compact


def _message_text(message: Message) -> str:
    """The text of a message that counts as input."""
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
    """Keep the first message, the user's newest, and those from about `start` on."""
    head = exchange_end(messages, 0)
    # The last message stays whatever its size: it is what the model must answer.
    start = max(head, min(start, len(messages) - 1))
    # Providers reject a result without the call it belongs to.
    while start > head and messages[start].results:
        start -= 1
    # Without the user's last request a long run would forget its purpose.
    request = [m for m in messages[head:start] if m.role == "user"][-1:]
    if any(m.role == "user" for m in messages[start:]):
        request = []
    return (*messages[:head], *request, *messages[start:])


def exchange_end(messages: Sequence[Message], position: int) -> int:
    """The position after a message and the results of its calls."""
    end = position + 1
    while messages[position].calls and end < len(messages) and messages[end].results:
        end += 1
    return end
