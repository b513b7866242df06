"""Deltas, the pieces of a streamed reply, and how they are combined into one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from ..catalog.sanitization import replace_json_surrogates, replace_surrogates
from .messages import Call, Message, NativeBlock, Part, Text

FinishReason = Literal["stop", "calls", "length", "refused", "paused"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more requests; cached and written tokens are part of the input."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            written_tokens=self.written_tokens + other.written_tokens,
        )


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of the reply."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """More of the reasoning that a model shows; for display, not part of the reply."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """The start of a call, or more of its arguments; `index` identifies the call in a reply."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    echo: str = ""


@dataclass(frozen=True, slots=True)
class NativeDelta:
    """A complete block that only this provider understands."""

    provider: str
    block: str


@dataclass(frozen=True, slots=True)
class UsageDelta:
    """The usage so far; a later one replaces an earlier one."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class FinishDelta:
    """The end of a reply, and the reason."""

    reason: FinishReason = "stop"


@dataclass(frozen=True, slots=True)
class RetryDelta:
    """The request failed and is sent again: discard everything received for it so far."""

    attempt: int
    reason: str
    wait_seconds: float


Delta = TextDelta | ThoughtDelta | CallDelta | NativeDelta | UsageDelta | FinishDelta | RetryDelta


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply: the message, its usage and the reason why it ended."""

    message: Message
    usage: Usage = field(default_factory=Usage)
    reason: FinishReason = "stop"


@dataclass(slots=True)
class _ReplyBuilder:
    # Parts are in the order they started; a call may get more arguments after later parts begin.
    parts: list[Part | _OpenText | _OpenCall] = field(
        default_factory=list["Part | _OpenText | _OpenCall"]
    )
    calls: dict[int, _OpenCall] = field(default_factory=dict[int, "_OpenCall"])
    usage: Usage = field(default_factory=Usage)
    reason: FinishReason = "stop"

    def add(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text):
                self._add_text(text)
            case CallDelta():
                self._add_call(delta)
            case NativeDelta(provider, block):
                self.parts.append(NativeBlock(provider, replace_json_surrogates(block)))
            case UsageDelta(usage):
                self.usage = usage
            case FinishDelta(reason):
                self.reason = reason
            case RetryDelta():
                self.parts, self.calls, self.usage = [], {}, Usage()
            case ThoughtDelta():
                pass

    def _add_text(self, text: str) -> None:
        if not self.parts or not isinstance(self.parts[-1], _OpenText):
            self.parts.append(_OpenText())
        last = self.parts[-1]
        assert isinstance(last, _OpenText)
        last.pieces.append(text)

    def _add_call(self, delta: CallDelta) -> None:
        call = self.calls.get(delta.index)
        if call is None:
            call = self.calls[delta.index] = _OpenCall()
            self.parts.append(call)
        call.id = delta.id or call.id
        call.name = delta.name or call.name
        call.echo = delta.echo or call.echo
        call.pieces.append(delta.arguments)

    def build(self) -> Reply:
        parts = tuple(p.build() if isinstance(p, _OpenText | _OpenCall) else p for p in self.parts)
        message = Message("assistant", _ensure_ids(parts))
        return Reply(message=message, usage=self.usage, reason=self.reason)


@dataclass(slots=True)
class _OpenText:
    pieces: list[str] = field(default_factory=list[str])

    def build(self) -> Text:
        return Text(replace_surrogates("".join(self.pieces)))


@dataclass(slots=True)
class _OpenCall:
    id: str = ""
    name: str = ""
    echo: str = "{}"
    pieces: list[str] = field(default_factory=list[str])

    def build(self) -> Call:
        arguments = replace_json_surrogates("".join(self.pieces))
        return Call(self.id, replace_surrogates(self.name), arguments or "{}", self.echo)


def _ensure_ids(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts with a unique id for every call."""
    # Some compatible services send no id, or the same one twice. The position makes the new id
    # the same on every run.
    seen: dict[str, Call] = {}
    unique: list[Part] = []
    for index, part in enumerate(parts):
        if isinstance(part, Call):
            known = seen.get(part.id) if part.id else None
            if known is not None and _is_same_call(known, part):
                continue  # sent twice, made once
            if not part.id or known is not None:
                part = replace(part, id=f"call_{index}_{part.id}".rstrip("_"))
            seen[part.id] = part
        unique.append(part)
    return tuple(unique)


def _is_same_call(first: Call, second: Call) -> bool:
    return (first.name, first.arguments) == (second.name, second.arguments)


def collect(deltas: Iterable[Delta]) -> Reply:
    """Combine the deltas of one reply; how finely it was cut makes no difference.

    Lone surrogates, which a model can write and no request could send back, are replaced.
    """
    builder = _ReplyBuilder()
    for delta in deltas:
        builder.add(delta)
    return builder.build()
