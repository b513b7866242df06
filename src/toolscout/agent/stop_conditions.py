"""When a run is over: plain functions in a list the caller can read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..models.deltas import Usage
from .steps import RunProgress


@dataclass(frozen=True, slots=True)
class Halt:
    """The end of a run: why, and the answer where it is not what the model said last."""

    reason: str
    text: str = ""


StopCondition = Callable[[RunProgress], Halt | None]
"""Asked after every step that made calls."""

DEFAULT_STEPS = 15


@dataclass(frozen=True, slots=True)
class StepLimit:
    """At most so many requests of the model."""

    most: int

    def __call__(self, progress: RunProgress) -> Halt | None:
        """The end, once all steps are used up."""
        return Halt(f"{self.most} steps") if len(progress.steps) >= self.most else None


def after_steps(most: int = DEFAULT_STEPS) -> StopCondition:
    """At most so many requests of the model."""
    return StepLimit(most)


def with_step_limit(stops: Sequence[StopCondition]) -> tuple[StopCondition, ...]:
    """The conditions, and the usual limit of steps where none of them is such a limit."""
    is_limited = any(isinstance(stop, StepLimit) for stop in stops)
    return tuple(stops) if is_limited else (*stops, after_steps())


def on_call(name: str) -> StopCondition:
    """A tool by which the model hands in its answer: what it returns is what the run says."""

    def stop(progress: RunProgress) -> Halt | None:
        for ran in progress.steps[-1].ran:
            if ran.call.name == name and not ran.result.is_error:
                return Halt(f"the call of {name}", ran.result.text)
        return None

    return stop


def when(predicate: Callable[[RunProgress], bool], *, reason: str) -> StopCondition:
    """Anything else that can be told from what has happened."""

    def stop(progress: RunProgress) -> Halt | None:
        return Halt(reason) if predicate(progress) else None

    return stop


def over_tokens(budget: int) -> StopCondition:
    """No further step once the run has used up its tokens, in and out."""

    def stop(progress: RunProgress) -> Halt | None:
        spent = progress.usage.total_tokens
        return Halt(f"a budget of {budget} tokens ({spent} used)") if spent >= budget else None

    return stop


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrices:
    """What a million tokens cost, in any currency; cached and written ones at their own price."""

    fresh: float
    output: float
    cached: float
    written: float

    def cost(self, usage: Usage) -> float:
        """What a usage comes to."""
        fresh = usage.input_tokens - usage.cached_tokens - usage.written_tokens
        total = (
            fresh * self.fresh
            + usage.cached_tokens * self.cached
            + usage.written_tokens * self.written
            + usage.output_tokens * self.output
        )
        return total / 1_000_000


def over_cost(budget: float, *, prices: TokenPrices) -> StopCondition:
    """No further step once the run has cost so much."""

    def stop(progress: RunProgress) -> Halt | None:
        cost = prices.cost(progress.usage)
        return Halt(f"a budget of {budget:g} ({cost:.4g} spent)") if cost >= budget else None

    return stop


def first_halt(stops: tuple[StopCondition, ...], progress: RunProgress) -> Halt | None:
    """The first condition that holds, in the order given."""
    return next((halt for stop in stops if (halt := stop(progress))), None)
