"""A conversation in no provider's dialect: frozen messages made of parts, plain JSON outside."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, cast

from pydantic import Field, TypeAdapter, ValidationError

from ..catalog.result import Result
from ..disclosure.search_arguments import decode_json
from ..errors import StoreError

MessageRole = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Text:
    """Words said."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool the model wants run.

    `arguments` is the text exactly as the model wrote it, JSON or not. `echo` is JSON that the
    provider wants to see again with the call and that means nothing to anybody else.
    """

    id: str
    name: str
    arguments: str = "{}"
    echo: str = "{}"
    type: Literal["call"] = "call"

    def values(self) -> dict[str, Any] | None:
        """The arguments, decoded; None if the model did not write a JSON object."""
        if not self.arguments.strip():
            return {}
        try:
            value = decode_json(self.arguments)
        except (ValueError, RecursionError):
            return None
        return cast("dict[str, Any]", value) if isinstance(value, dict) else None

    def replay_arguments(self) -> dict[str, Any]:
        """Arguments a provider accepts back: always an object, broken text kept inside it."""
        value = self.values()
        return {"unreadable": self.arguments} if value is None else value

    def echo_fields(self) -> dict[str, Any]:
        """What the provider wants to see again."""
        return json.loads(self.echo)


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call gave; `native` is the provider's own form of it, where it has one."""

    id: str
    name: str
    result: Result
    native: str = ""
    type: Literal["result"] = "result"

    @property
    def extra_text(self) -> str:
        """What is said beside the native form, which stands for the first part of the result."""
        return "\n".join(c.text for c in self.result.content[1:] if c.text)


@dataclass(frozen=True, slots=True)
class NativeBlock:
    """A block only its own provider understands (thinking, hosted search), kept word for word."""

    provider: str
    block: str
    type: Literal["native"] = "native"


Part = Text | Call | CallResult | NativeBlock


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of one side."""

    role: MessageRole
    parts: tuple[Annotated[Part, Field(discriminator="type")], ...]

    @property
    def text(self) -> str:
        """All that was said, joined."""
        return "".join(p.text for p in self.parts if isinstance(p, Text))

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls asked for, in order."""
        return tuple(p for p in self.parts if isinstance(p, Call))

    @property
    def results(self) -> tuple[CallResult, ...]:
        """The results given, in order."""
        return tuple(p for p in self.parts if isinstance(p, CallResult))


def user_message(text: str) -> Message:
    """Something the user says."""
    return Message("user", (Text(text),))


def assistant_message(*parts: Part) -> Message:
    """Something the model says or asks for."""
    return Message("assistant", parts)


def notice_message(text: str) -> Message:
    """Something the program tells the model in the middle of a conversation."""
    return Message("system", (Text(text),))


def build_call_result(call: Call, result: Result, *, native: str = "") -> CallResult:
    """The result of a call, without what only its source understands."""
    return CallResult(call.id, call.name, replace(result, raw=None), native)


def results_message(*results: CallResult) -> Message:
    """The results of one step, together, as every provider wants them."""
    return Message("tool", results)


_ADAPTER: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])


def dump_messages(messages: Iterable[Message]) -> str:
    """A conversation as JSON text; the same one gives the same bytes."""
    rows = _ADAPTER.dump_python(tuple(messages))
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair, which a model can escape into a text, is not UTF-8.
    return text.encode("utf-8", "replace").decode()


def load_messages(text: str) -> tuple[Message, ...]:
    """A conversation from its JSON text."""
    try:
        return _ADAPTER.validate_json(text)
    except ValidationError as error:
        raise StoreError(
            f"The kept conversation cannot be read: {error.errors()[0]['msg']}.",
            hint="Start a new session, or remove this one from the store.",
        ) from error


CONVERSATION_SECTION = "conversation"


def load_history(text: str | None) -> tuple[Message, ...]:
    """The messages of a conversation so far; none if it is new."""
    return load_messages(text) if text else ()


def append_messages(text: str | None, messages: Sequence[Message]) -> str:
    """The kept text with some more messages, joined as text so that length costs nothing.

    Whoever else wrote to the conversation meanwhile keeps his place in it.
    """
    new = dump_messages(messages)
    if not text or text == "[]":
        return new
    return f"{text[:-1]},{new[1:]}" if messages else text
