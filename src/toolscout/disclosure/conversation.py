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
class Said:
    """Something that the user or the model said."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Sought:
    """A need for tools, as the model would ask for them."""

    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Called:
    """A call of a tool, as JSON, and what it gave."""

    name: str
    arguments: str
    result: str


Step = Said | Sought | Called


def read_conversation(text: str) -> tuple[Step, ...]:
    """Read JSON lines; a line that is none of the known kinds is an error that names it."""
    return tuple(_steps(text))


def _steps(text: str) -> Iterator[Step]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield _Row.model_validate_json(line).step()
        except ValueError as error:
            why = _why(error)
            raise ConfigError(f"Line {number} of the conversation: {why}.", hint=_HINT) from error


def _why(error: ValueError) -> str:
    """What is wrong with a line, and where in it."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


class _Row(BaseModel):
    """One line, checked where it comes in."""

    model_config = ConfigDict(extra="forbid")

    user: str | None = None
    assistant: str | None = None
    search: str | list[str] | None = None
    call: str | None = None
    arguments: dict[str, Any] = {}
    result: Any = ""

    def step(self) -> Step:
        """The step it stands for."""
        if sum(x is not None for x in (self.user, self.assistant, self.search, self.call)) != 1:
            raise ValueError("it must be exactly one of user, assistant, search and call")
        if self.user is not None:
            return Said("user", self.user)
        if self.assistant is not None:
            return Said("assistant", self.assistant)
        if self.search is not None:
            return Sought((self.search,) if isinstance(self.search, str) else tuple(self.search))
        arguments = json.dumps(self.arguments, ensure_ascii=False, separators=(",", ":"))
        result = self.result if isinstance(self.result, str) else json.dumps(self.result)
        return Called(self.call or "", arguments, result)
