"""Events that a streamed run yields."""

from __future__ import annotations

from dataclasses import dataclass

from ..models.messages import Call
from ..toolbox.call_record import CallRecord
from .steps import Run, RunStep


@dataclass(frozen=True, slots=True)
class TextEvent:
    """More text of the model."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtEvent:
    """More of the reasoning that the model exposes."""

    text: str


@dataclass(frozen=True, slots=True)
class RetryEvent:
    """The model request failed and is retried; discard the text of this step so far."""

    attempt: int
    reason: str
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class CallStartEvent:
    """A call starts, under the real name of its tool."""

    call: Call
    is_discovery: bool = False


@dataclass(frozen=True, slots=True)
class CallEndEvent:
    """A call ended, successfully or not."""

    outcome: CallRecord


@dataclass(frozen=True, slots=True)
class LoadEvent:
    """Tools were loaded; the next request includes them."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepEndEvent:
    """A step ended."""

    step: RunStep


@dataclass(frozen=True, slots=True)
class RunEndEvent:
    """The run ended; always the last event."""

    run: Run


StreamEvent = (
    TextEvent
    | ThoughtEvent
    | RetryEvent
    | CallStartEvent
    | CallEndEvent
    | LoadEvent
    | StepEndEvent
    | RunEndEvent
)
