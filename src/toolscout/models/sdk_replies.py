"""Replies that came in one piece, as the official SDKs hand them over, and what answers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..catalog.result import Result
from ..errors import ToolscoutError
from . import anthropic, google
from . import openai_chat as chat
from . import openai_responses as responses
from .deltas import Delta, collect
from .messages import Message, build_call_result, results_message


@dataclass(frozen=True, slots=True)
class ReplyFormat:
    """How one API writes a reply and messages; `mark` is what only its replies have."""

    provider: str
    mark: str
    read: Callable[[Any], Iterable[Delta]]
    write: Callable[[Sequence[Message], Sequence[Mapping[str, Any]]], list[dict[str, Any]]]


_FORMATS = (
    ReplyFormat(
        anthropic.AnthropicModel.provider,
        "stop_reason",
        anthropic.reply_deltas,
        lambda messages, tools: anthropic.render_messages(messages, tools=tools),
    ),
    ReplyFormat(
        responses.ResponsesModel.provider,
        "output",
        responses.reply_deltas,
        lambda messages, _: responses.render_messages(messages),
    ),
    ReplyFormat(
        chat.ChatModel.provider,
        "choices",
        chat.reply_deltas,
        lambda messages, _: chat.render_messages(messages),
    ),
    ReplyFormat(
        google.GoogleModel.provider,
        "candidates",
        google.reply_deltas,
        lambda messages, _: google.render_messages(messages),
    ),
)


@dataclass(frozen=True, slots=True)
class SDKReply:
    """What a model said and asked for, and the API it did so over."""

    form: ReplyFormat
    message: Message
    model: str

    def next_messages(
        self, results: Sequence[tuple[Result, str]], *, tools: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """The model's turn and the results of its calls, as messages for the next request.

        Each result comes with its native form, if it has one. `tools` are those of that request,
        since results may refer to them and to no other.
        """
        pairs = zip(self.message.calls, results, strict=True)
        back = results_message(
            *(build_call_result(call, result, native=form) for call, (result, form) in pairs)
        )
        return self.form.write([self.message, back], tools)


def read_sdk_reply(response: object) -> SDKReply:
    """A response of an SDK, or its dictionary; whatever else is refused."""
    for form in _FORMATS:
        if _has_field(response, form.mark):
            message = collect(form.read(_to_dict(response))).message
            return SDKReply(form, message, _model_name(response))
    raise ToolscoutError(
        f"A {type(response).__name__} is no reply of a model that can be answered.",
        hint="Give the whole response of Messages, Responses, Chat Completions or Gemini, awaited, "
        "as the SDK returns it or as its dictionary; of a stream, its final one.",
    )


def _has_field(response: object, mark: str) -> bool:
    return mark in response if isinstance(response, Mapping) else hasattr(response, mark)


def _to_dict(response: Any) -> Any:
    """The dictionary, where the SDK has a way to give it."""
    to_dict: Callable[..., Any] | None = getattr(response, "to_dict", None)
    return to_dict(mode="json", warnings=False) if to_dict else response


def _model_name(response: object) -> str:
    if isinstance(response, Mapping):
        return str(cast("Mapping[str, object]", response).get("model", ""))
    return str(getattr(response, "model", ""))
