"""What a run tells while it runs, for whoever watches."""

from __future__ import annotations

from dataclasses import dataclass

from ..models.messages import Call
from .steps import Ran, Run, Step


@dataclass(frozen=True, slots=True)
class Said:
    """More words of the model."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """More of the reasoning that the model shows."""

    text: str


@dataclass(frozen=True, slots=True)
class Retried:
    """The model service failed and is asked again; what it said in this step does not count."""

    attempt: int
    reason: str
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Calling:
    """A call begins, by the real name of its tool."""

    call: Call
    is_discovery: bool = False


@dataclass(frozen=True, slots=True)
class Called:
    """A call is over, well or not."""

    ran: Ran


@dataclass(frozen=True, slots=True)
class Loaded:
    """Tools came into view; the next request has them."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stepped:
    """A step is over, and its part of the conversation is saved."""

    step: Step


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over; always the last."""

    run: Run


Happening = Said | Thought | Retried | Calling | Called | Loaded | Stepped | Finished
