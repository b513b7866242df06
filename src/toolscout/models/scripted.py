"""A model that plays a script, for tests, demonstrations and offline use."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..disclosure.target import ModelTransport
from ..errors import ConfigError, ModelError
from .deltas import CallDelta, Delta, FinishDelta, FinishReason, TextDelta, Usage, UsageDelta
from .failures import model_error, stream_cut_error
from .messages import dump_messages
from .model import ModelRequest

# Words with the space around them, so that the pieces of a text join to the same text.
_WORDS = re.compile(r"\s*\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A call in a script; arguments given as text are sent unchanged, even if invalid."""

    name: str
    arguments: dict[str, Any] | str = "{}"


@dataclass(frozen=True, slots=True)
class ScriptedFailure:
    """A failure in a script: a status of the service, or a stream that breaks off."""

    status: int | None = None
    message: str = "as the script says"
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reply in a script: text, calls, both, or a failure."""

    say: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    error: ScriptedFailure | None = None
    usage: Usage | None = None
    reason: FinishReason | None = None


Script = Sequence[Turn | str | Callable[[ModelRequest], Turn]]
"""Turns in order; a string is a turn with that text, a function makes a turn from the request."""

_ADAPTER: TypeAdapter[list[str | Turn]] = TypeAdapter(list[str | Turn])


class ScriptedModel:
    """Plays a script, one turn for each request, and records every request."""

    def __init__(
        self,
        script: Script,
        *,
        name: str = "scripted",
        provider: str = "plain",
        count: Callable[[str], int] | None = None,
    ) -> None:
        self.name = name
        self.provider = provider
        self.transport: ModelTransport = "direct"
        self.requests: list[ModelRequest] = []
        self._turns = tuple(script)
        self._count = count

    @classmethod
    def read(cls, path: str | Path, *, count: Callable[[str], int] | None = None) -> ScriptedModel:
        """Read a script from a JSON file, a list of turns."""
        try:
            turns = _ADAPTER.validate_json(Path(path).read_bytes())
        except OSError as error:
            raise ConfigError(f"The script {path} cannot be read: {error.strerror}.") from error
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise ConfigError(
                f"The script {path} is invalid at {place or 'the top'}: {first['msg']}.",
                hint='Write a list of turns, as ["Hello", {"calls": [{"name": "…"}]}].',
            ) from error
        return cls(turns, name=Path(path).name, count=count)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta]:
        """Play the next turn of the script."""
        turn = self._next_turn(request)
        for piece in _WORDS.findall(turn.say):
            yield TextDelta(piece)
        # After the text, so that a script can break off in the middle of a reply.
        if turn.error:
            raise _failure_error(turn.error)
        for index, call in enumerate(turn.calls):
            value = call.arguments
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            call_id = f"call_{len(self.requests)}_{index}"
            yield CallDelta(index, id=call_id, name=call.name, arguments=text)
        yield UsageDelta(turn.usage or self._count_usage(request, turn))
        yield FinishDelta(turn.reason or ("calls" if turn.calls else "stop"))

    async def close(self) -> None:
        """Do nothing: a script has no connections."""

    def _next_turn(self, request: ModelRequest) -> Turn:
        index = len(self.requests)
        self.requests.append(request)
        if index >= len(self._turns):
            raise ModelError(
                f"The script has ended: it has {len(self._turns)} turns.",
                hint="Add a turn to the script, or end the conversation here.",
            )
        turn = self._turns[index]
        if callable(turn):
            return turn(request)
        return Turn(say=turn) if isinstance(turn, str) else turn

    def _count_usage(self, request: ModelRequest, turn: Turn) -> Usage:
        if self._count is None:
            return Usage()
        tools = json.dumps([dict(tool) for tool in request.tools], ensure_ascii=False)
        output_text = turn.say + "".join(f"{c.name}{c.arguments}" for c in turn.calls)
        input_texts = (request.instructions, tools, dump_messages(request.messages))
        return Usage(
            input_tokens=sum(map(self._count, input_texts)),
            output_tokens=self._count(output_text),
        )


def _failure_error(failure: ScriptedFailure) -> ModelError:
    if failure.is_cut:
        return stream_cut_error("The script")
    return model_error("The script", failure.message, status=failure.status)
