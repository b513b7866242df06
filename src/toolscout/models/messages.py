"""Provider-independent messages: frozen values made of parts, stored as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, cast

from pydantic import Field, TypeAdapter, ValidationError

from ..catalog.result import Result
from ..catalog.sanitization import compact_json, decode_json
from ..errors import StoreError

MessageRole = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model.

    `arguments` is the text exactly as the model wrote it, JSON or not. `echo` is JSON that the
    provider needs back with the call, such as an item id or a signature.
    """

    id: str
    name: str
    arguments: str = "{}"
    echo: str = "{}"
    type: Literal["call"] = "call"

    def values(self) -> dict[str, Any] | None:
        """The decoded arguments; None if the model did not write a JSON object."""
        if not self.arguments.strip():
            return {}
        try:
            value = decode_json(self.arguments)
        except (ValueError, RecursionError):
            return None
        return cast("dict[str, Any]", value) if isinstance(value, dict) else None

    def replay_arguments(self) -> dict[str, Any]:
        """Arguments that a provider accepts back: an object, with broken text inside it."""
        # Providers refuse a history with invalid arguments. The model should still see its own
        # mistake next to the error it got.
        value = self.values()
        return {"unreadable": self.arguments} if value is None else value

    def echo_fields(self) -> dict[str, Any]:
        """The decoded `echo`."""
        return json.loads(self.echo)


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call; `native` is the result in the provider's own format, if it has one."""

    id: str
    name: str
    result: Result
    native: str = ""
    type: Literal["result"] = "result"

    @property
    def extra_text(self) -> str:
        """The text beside the native format, which replaces the first part of the result."""
        return "\n".join(c.text for c in self.result.content[1:] if c.text)


@dataclass(frozen=True, slots=True)
class NativeBlock:
    """A block that only its provider understands (thinking, hosted search), kept unchanged."""

    provider: str
    block: str
    type: Literal["native"] = "native"


Part = Text | Call | CallResult | NativeBlock


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: MessageRole
    parts: tuple[Annotated[Part, Field(discriminator="type")], ...]

    @property
    def text(self) -> str:
        """The text of all parts, joined."""
        return "".join(p.text for p in self.parts if isinstance(p, Text))

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls in order."""
        return tuple(p for p in self.parts if isinstance(p, Call))

    @property
    def results(self) -> tuple[CallResult, ...]:
        """The results in order."""
        return tuple(p for p in self.parts if isinstance(p, CallResult))


def encode_input(value: object) -> str:
    """The arguments of a call as JSON text; arguments that cannot be encoded give text that is not
    JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except Exception as error:  # noqa: BLE001 - too deep, cyclic, or an object without a text
        # The call is then refused with an error that the model can read.
        return f"<arguments that cannot be written as JSON: {type(error).__name__}>"


def user_message(text: str) -> Message:
    """A message of the user."""
    return Message("user", (Text(text),))


def assistant_message(*parts: Part) -> Message:
    """A message of the model."""
    return Message("assistant", parts)


def notice_message(text: str) -> Message:
    """A notice of the program to the model in the middle of a conversation."""
    return Message("system", (Text(text),))


def build_call_result(call: Call, result: Result, *, native: str = "") -> CallResult:
    """The result of a call, without `raw`, which cannot be stored."""
    return CallResult(call.id, call.name, replace(result, raw=None), native)


def results_message(*results: CallResult) -> Message:
    """The results of one step in one message."""
    return Message("tool", results)


_ADAPTER: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])


def dump_messages(messages: Iterable[Message]) -> str:
    """A conversation as JSON text; the same one gives the same bytes."""
    # Not `dump_json`, which fails on a lone surrogate. A model can escape one into a text.
    rows = _ADAPTER.dump_python(tuple(messages))
    return compact_json(rows).encode("utf-8", "replace").decode()


def load_messages(text: str) -> tuple[Message, ...]:
    """Read a conversation from JSON text; raises StoreError if it is invalid."""
    try:
        return _ADAPTER.validate_json(text)
    except ValidationError as error:
        raise StoreError(
            f"The stored conversation cannot be read: {error.errors()[0]['msg']}.",
            hint="Start a new session, or remove this one from the store.",
        ) from error


CONVERSATION_SECTION = "conversation"


def load_history(text: str | None) -> tuple[Message, ...]:
    """The stored messages of a conversation; none if it is new."""
    return load_messages(text) if text else ()


def append_messages(text: str | None, messages: Sequence[Message]) -> str:
    """The stored text with more messages at the end.

    Messages that another writer has stored meanwhile stay in place.
    """
    # Joined as text: decoding a long conversation for every step would be slow.
    new = dump_messages(messages)
    if not text or text == "[]":
        return new
    return f"{text[:-1]},{new[1:]}" if messages else text
