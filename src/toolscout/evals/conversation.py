"""Recorded conversations: messages, searches and calls, independent of provider and surface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ..catalog.sanitization import compact_json
from ..errors import ConfigError

_HINT = (
    'A line is {"user": "…"}, {"assistant": "…"}, {"search": "…" or ["…"]} or '
    '{"call": "tool", "arguments": {…}, "result": "…"}.'
)


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """A message of the user or the model."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class RecordedSearch:
    """A search for tools, with the queries of the model."""

    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A tool call with its arguments as JSON, and its result."""

    name: str
    arguments: str
    result: str


RecordedTurn = RecordedMessage | RecordedSearch | RecordedCall


def read_conversation(text: str) -> tuple[RecordedTurn, ...]:
    """Read JSON lines; raises ConfigError with the number of a line that is invalid."""
    return tuple(_parse_lines(text))


def _parse_lines(text: str) -> Iterator[RecordedTurn]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield _ConversationLine.model_validate_json(line).to_turn()
        except ValueError as error:
            reason = _describe_error(error)
            message = f"Line {number} of the conversation: {reason}."
            raise ConfigError(message, hint=_HINT) from error


def _describe_error(error: ValueError) -> str:
    """The reason why a line is invalid, with the field."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    return f"{path}: {first['msg']}" if path else first["msg"]


class _ConversationLine(BaseModel):
    """One line, validated on reading."""

    model_config = ConfigDict(extra="forbid")

    user: str | None = None
    assistant: str | None = None
    search: str | list[str] | None = None
    call: str | None = None
    arguments: dict[str, Any] = {}
    result: Any = ""

    def to_turn(self) -> RecordedTurn:
        """The turn that the line describes."""
        if sum(x is not None for x in (self.user, self.assistant, self.search, self.call)) != 1:
            raise ValueError("it must be exactly one of user, assistant, search and call")
        if self.user is not None:
            return RecordedMessage("user", self.user)
        if self.assistant is not None:
            return RecordedMessage("assistant", self.assistant)
        if self.search is not None:
            return RecordedSearch(
                (self.search,) if isinstance(self.search, str) else tuple(self.search)
            )
        result = self.result if isinstance(self.result, str) else json.dumps(self.result)
        return RecordedCall(self.call or "", compact_json(self.arguments), result)
