"""Recorded conversations: what was said, looked for and called, without the how."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import ConfigError

_HINT = (
    'A line is {"user": "…"}, {"assistant": "…"}, {"search": "…" or ["…"]} or '
    '{"call": "tool", "arguments": {…}, "result": "…"}.'
)


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """Something that the user or the model said."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class RecordedSearch:
    """A need for tools, as the model would ask for them."""

    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call of a tool, as JSON, and what it gave."""

    name: str
    arguments: str
    result: str


RecordedTurn = RecordedMessage | RecordedSearch | RecordedCall


def read_conversation(text: str) -> tuple[RecordedTurn, ...]:
    """Read JSON lines; a line that is none of the known kinds is an error that names it."""
    return tuple(_parse_lines(text))


def _parse_lines(text: str) -> Iterator[RecordedTurn]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield _ConversationLine.model_validate_json(line).to_turn()
        except ValueError as error:
            why = _describe_error(error)
            raise ConfigError(f"Line {number} of the conversation: {why}.", hint=_HINT) from error


def _describe_error(error: ValueError) -> str:
    """What is wrong with a line, and where in it."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


class _ConversationLine(BaseModel):
    """One line, checked where it comes in."""

    model_config = ConfigDict(extra="forbid")

    user: str | None = None
    assistant: str | None = None
    search: str | list[str] | None = None
    call: str | None = None
    arguments: dict[str, Any] = {}
    result: Any = ""

    def to_turn(self) -> RecordedTurn:
        """The step it stands for."""
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
        arguments = json.dumps(self.arguments, ensure_ascii=False, separators=(",", ":"))
        result = self.result if isinstance(self.result, str) else json.dumps(self.result)
        return RecordedCall(self.call or "", arguments, result)
