"""Replies that came in one piece, as the official SDKs hand them over, and what answers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..catalog.result import Result
from ..errors import ToolscoutError
from . import anthropic, chat, google, responses
from .deltas import Delta, collect
from .messages import Message, answered, returned


@dataclass(frozen=True, slots=True)
class Form:
    """How one API writes a reply and messages; `mark` is what only its replies have."""

    provider: str
    mark: str
    read: Callable[[Any], Iterable[Delta]]
    write: Callable[[Sequence[Message], Sequence[Mapping[str, Any]]], list[dict[str, Any]]]


_FORMS = (
    Form(
        anthropic.AnthropicModel.provider,
        "stop_reason",
        anthropic.whole,
        lambda messages, tools: anthropic.dialogue(messages, tools=tools),
    ),
    Form(
        responses.ResponsesModel.provider,
        "output",
        responses.whole,
        lambda messages, _: responses.dialogue(messages),
    ),
    Form(
        chat.ChatModel.provider,
        "choices",
        chat.whole,
        lambda messages, _: chat.dialogue(messages),
    ),
    Form(
        google.GoogleModel.provider,
        "candidates",
        google.whole,
        lambda messages, _: google.dialogue(messages),
    ),
)


@dataclass(frozen=True, slots=True)
class WholeReply:
    """What a model said and asked for, and the API it did so over."""

    form: Form
    message: Message
    model: str

    def answered(
        self, results: Sequence[tuple[Result, str]], *, tools: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """The model's turn and the results of its calls, as messages for the next request.

        Each result comes with its native form, if it has one. `tools` are those of that request,
        since results may refer to them and to no other.
        """
        pairs = zip(self.message.calls, results, strict=True)
        back = returned(*(answered(call, result, native=form) for call, (result, form) in pairs))
        return self.form.write([self.message, back], tools)


def read(response: object) -> WholeReply:
    """A response of an SDK, or its dictionary; whatever else is refused."""
    for form in _FORMS:
        if _has(response, form.mark):
            message = collect(form.read(_plain(response))).message
            return WholeReply(form, message, _model(response))
    raise ToolscoutError(
        f"A {type(response).__name__} is no reply of a model that can be answered.",
        hint="Give the whole response of Messages, Responses, Chat Completions or Gemini, awaited, "
        "as the SDK returns it or as its dictionary; of a stream, its final one.",
    )


def _has(response: object, mark: str) -> bool:
    return mark in response if isinstance(response, Mapping) else hasattr(response, mark)


def _plain(response: Any) -> Any:
    """The dictionary, where the SDK has a way to give it."""
    to_dict: Callable[..., Any] | None = getattr(response, "to_dict", None)
    return to_dict(mode="json", warnings=False) if to_dict else response


def _model(response: object) -> str:
    if isinstance(response, Mapping):
        return str(cast("Mapping[str, object]", response).get("model", ""))
    return str(getattr(response, "model", ""))
