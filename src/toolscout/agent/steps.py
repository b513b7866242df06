"""Records of a run: its limits, its steps with their calls, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..models.deltas import FinishReason, Usage
from ..models.messages import Message
from ..toolbox.call_record import CallRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Limits of a run: calls per step, parallel calls, size of arguments, seconds."""

    calls: int = 64
    parallel: int = 8
    argument_chars: int = 1_000_000
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """One request to the model and the calls it led to."""

    number: int
    text: str = ""
    outcomes: tuple[CallRecord, ...] = ()
    active: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    reason: FinishReason = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """A run in progress, as stop conditions and hooks see it."""

    session: str
    steps: tuple[RunStep, ...] = ()
    usage: Usage = field(default_factory=Usage)

    @property
    def number(self) -> int:
        """The number of the next step, counted from 0."""
        return len(self.steps)

    @property
    def tools_loaded(self) -> tuple[str, ...]:
        """The tools loaded in this run, in order, each once."""
        return tuple(dict.fromkeys(name for step in self.steps for name in step.loaded))

    @property
    def tools_used(self) -> tuple[str, ...]:
        """The tools that ran in this run, successfully or not, in order, each once."""
        outcomes = (o for step in self.steps for o in step.outcomes if o.is_run)
        return tuple(dict.fromkeys(o.call.name for o in outcomes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished run: its answer, why it stopped, and its steps and messages."""

    session: str
    text: str
    stopped_by: str
    steps: tuple[RunStep, ...]
    usage: Usage
    messages: tuple[Message, ...]

    @property
    def searches(self) -> int:
        """How often the model searched for tools."""
        return sum(o.is_discovery for step in self.steps for o in step.outcomes)

    @property
    def tools_loaded(self) -> tuple[str, ...]:
        """The tools loaded in this run, in order, each once."""
        return RunProgress(session=self.session, steps=self.steps).tools_loaded

    @property
    def tools_used(self) -> tuple[str, ...]:
        """The tools that ran in this run, successfully or not, in order, each once."""
        return RunProgress(session=self.session, steps=self.steps).tools_used
