"""What a run tells while it runs, for whoever watches."""

from __future__ import annotations

from dataclasses import dataclass

from ..models.messages import Call
from .steps import CallOutcome, Run, RunStep


@dataclass(frozen=True, slots=True)
class TextEvent:
    """More words of the model."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtEvent:
    """More of the reasoning that the model shows."""

    text: str


@dataclass(frozen=True, slots=True)
class RetryEvent:
    """The model service failed and is asked again; what it said in this step does not count."""

    attempt: int
    reason: str
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class CallStartEvent:
    """A call begins, by the real name of its tool."""

    call: Call
    is_discovery: bool = False


@dataclass(frozen=True, slots=True)
class CallEndEvent:
    """A call is over, well or not."""

    ran: CallOutcome


@dataclass(frozen=True, slots=True)
class LoadEvent:
    """Tools came into view; the next request has them."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepEndEvent:
    """A step is over, and its part of the conversation is saved."""

    step: RunStep


@dataclass(frozen=True, slots=True)
class RunEndEvent:
    """The run is over; always the last."""

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
