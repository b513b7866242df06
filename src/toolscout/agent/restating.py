"""Bringing loaded tools back into a conversation that was cut, where messages bring them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ..catalog.result import Result
from ..disclosure.replies.scout import LOADED
from ..disclosure.restating import CLOSING
from ..disclosure.view import View
from ..models.messages import Call, Message, Text, answered, assistant, returned
from .trimming import closed


def restated(messages: Sequence[Message], view: View) -> tuple[Message, ...]:
    """The conversation in which every loaded tool of the view can be called; mostly the same one.

    What is missing comes behind the first message, which every cut leaves where it is.
    """
    again = view.unreferred(_referred(messages)) if messages else None
    if again is None:
        return tuple(messages)
    call = Call(again.id, again.search, json.dumps(again.arguments, ensure_ascii=False))
    said = Result.of(f"{LOADED}{', '.join(again.tools)}")
    told = [assistant(call), returned(answered(call, said, native=again.answer))]
    place = closed(messages, 0)
    if place < len(messages) and messages[place].role != "assistant":
        told.append(assistant(Text(CLOSING)))
    return (*messages[:place], *told, *messages[place:])


def _referred(messages: Sequence[Message]) -> Iterator[str]:
    """The tools that results refer to."""
    for native in (r.native for m in messages for r in m.results if r.native):
        blocks: list[dict[str, Any]] = json.loads(native)
        yield from (b["tool_name"] for b in blocks if b.get("type") == "tool_reference")
