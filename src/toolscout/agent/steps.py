"""What a run has done so far and what it came to, as plain records."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..catalog.result import Result
from ..models.deltas import FinishReason, Usage
from ..models.messages import Call, Message


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """A call and what came of it.

    `is_discovery` marks searches and other looking around, `is_repeat` a call that was not made
    because it had been made before to no effect, `is_run` one whose tool really ran, well or not.
    """

    call: Call
    result: Result
    is_discovery: bool = False
    is_repeat: bool = False
    is_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """One request of the model and the calls it led to."""

    number: int
    text: str = ""
    ran: tuple[CallOutcome, ...] = ()
    active: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    reason: FinishReason = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """A run while it runs: what stop conditions and hooks look at."""

    session: str
    steps: tuple[RunStep, ...] = ()
    usage: Usage = field(default_factory=Usage)

    @property
    def number(self) -> int:
        """The step to come, counted from 0."""
        return len(self.steps)

    @property
    def tools_loaded(self) -> tuple[str, ...]:
        """What was loaded in this run, in order, each once."""
        return tuple(dict.fromkeys(name for step in self.steps for name in step.loaded))

    @property
    def tools_used(self) -> tuple[str, ...]:
        """The tools that ran in this run, well or not, in order, each once."""
        ran = (r for step in self.steps for r in step.ran if r.is_run)
        return tuple(dict.fromkeys(r.call.name for r in ran))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a run ended: what was said, why it stopped, and all that led there."""

    session: str
    text: str
    stopped_by: str
    steps: tuple[RunStep, ...]
    usage: Usage
    messages: tuple[Message, ...]

    @property
    def searches(self) -> int:
        """How often the model looked for tools."""
        return sum(r.is_discovery for step in self.steps for r in step.ran)

    @property
    def tools_loaded(self) -> tuple[str, ...]:
        """What was loaded in this run, in order, each once."""
        return RunProgress(session=self.session, steps=self.steps).tools_loaded

    @property
    def tools_used(self) -> tuple[str, ...]:
        """The tools that ran in this run, well or not, in order, each once."""
        return RunProgress(session=self.session, steps=self.steps).tools_used
