"""Events that a streamed run yields; they have the envelope that all events have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from ..events import Event
from ..models.messages import Call
from ..toolbox.call_record import CallRecord
from .steps import Run, RunStep


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEvent(Event):
    """More text of the model."""

    kind: ClassVar[str] = "text"

    text: Annotated[str, "the next piece"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtEvent(Event):
    """More of the reasoning that the model exposes."""

    kind: ClassVar[str] = "thought"

    text: Annotated[str, "the next piece"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryEvent(Event):
    """The model request failed and is retried; discard the text of this step so far."""

    kind: ClassVar[str] = "retry"

    attempt: Annotated[int, "the number of the next attempt"]
    reason: Annotated[str, "why"]
    wait_seconds: Annotated[float, "until then"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStartEvent(Event):
    """A call starts, under the real name of its tool."""

    kind: ClassVar[str] = "call_start"
    private: ClassVar[frozenset[str]] = frozenset({"call"})

    call: Annotated[Call, "the call"]
    is_discovery: Annotated[bool, "whether it is a search for tools"] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEndEvent(Event):
    """A call ended, successfully or not."""

    kind: ClassVar[str] = "call_end"
    private: ClassVar[frozenset[str]] = frozenset({"outcome"})

    outcome: Annotated[CallRecord, "the call, its result and what happened"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadEvent(Event):
    """Tools were loaded; the next request includes them."""

    kind: ClassVar[str] = "tools_loaded"

    names: Annotated[tuple[str, ...], "in the order of loading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEndEvent(Event):
    """A step ended."""

    kind: ClassVar[str] = "step_end"
    private: ClassVar[frozenset[str]] = frozenset({"step"})

    step: Annotated[RunStep, "the step with its calls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEndEvent(Event):
    """The run ended; always the last event."""

    kind: ClassVar[str] = "run_result"
    private: ClassVar[frozenset[str]] = frozenset({"run"})

    run: Annotated[Run, "the run with its answer"]


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

STREAM_EVENTS: tuple[type[Event], ...] = (
    TextEvent,
    ThoughtEvent,
    RetryEvent,
    CallStartEvent,
    CallEndEvent,
    LoadEvent,
    StepEndEvent,
    RunEndEvent,
)
