"""Read complete replies of the official SDKs, and write the messages that answer them."""

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
    """How one API writes replies and messages; `marker` is a field that only its replies have."""

    provider: str
    marker: str
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
    """A reply of a model, and the format of its API."""

    format: ReplyFormat
    message: Message
    model: str

    def next_messages(
        self, results: Sequence[tuple[Result, str]], *, tools: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """The model's message and the results of its calls, as messages for the next request.

        Each result is paired with its native format, or an empty string. `tools` are those of
        the next request: results may refer to them and to no others.
        """
        pairs = zip(self.message.calls, results, strict=True)
        answers = results_message(
            *(build_call_result(call, result, native=native) for call, (result, native) in pairs)
        )
        return self.format.write([self.message, answers], tools)


def read_sdk_reply(response: object) -> SDKReply:
    """Read a response of an SDK, or its dictionary; raises ToolscoutError for anything else."""
    # By a field and not by a class: the SDKs are optional, and wrappers return their own types.
    for reply_format in _FORMATS:
        if _has_field(response, reply_format.marker):
            message = _read_message(reply_format, response)
            return SDKReply(reply_format, message, _model_name(response))
    raise ToolscoutError(
        f"A {type(response).__name__} is not a model reply that can be answered.",
        hint="Give the whole response of Messages, Responses, Chat Completions or Gemini, awaited, "
        "as the SDK returns it or as its dictionary; of a stream, its final one.",
    )


def _read_message(reply_format: ReplyFormat, response: object) -> Message:
    try:
        return collect(reply_format.read(_to_dict(response))).message
    except (AttributeError, KeyError, TypeError, IndexError, ValueError) as error:
        raise ToolscoutError(
            f"This reply is not in the format of {reply_format.provider}: {error}.",
            hint="Give the response as the SDK returns it, or the whole of its JSON.",
        ) from error


def _has_field(response: object, name: str) -> bool:
    return name in response if isinstance(response, Mapping) else hasattr(response, name)


def _to_dict(response: Any) -> Any:
    """The response as a dictionary, if its SDK can convert it."""
    # OpenAI and Anthropic can. Google's objects stay unchanged: its reader takes attributes.
    to_dict: Callable[..., Any] | None = getattr(response, "to_dict", None)
    return to_dict(mode="json", warnings=False) if to_dict else response


def _model_name(response: object) -> str:
    if isinstance(response, Mapping):
        return str(cast("Mapping[str, object]", response).get("model", ""))
    return str(getattr(response, "model", ""))
