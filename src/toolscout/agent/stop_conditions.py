"""Stop conditions: functions that end a run, by steps, tokens, cost or a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..models.deltas import Usage
from .steps import RunProgress


@dataclass(frozen=True, slots=True)
class Halt:
    """The end of a run: the reason, and the answer if it is not the last text of the model."""

    reason: str
    text: str = ""


StopCondition = Callable[[RunProgress], Halt | None]
"""Checked after every step that made calls."""

DEFAULT_STEPS = 15


@dataclass(frozen=True, slots=True)
class StepLimit:
    """Stop after a number of requests to the model."""

    # A class, unlike the other conditions, so that `with_step_limit` can recognise it.
    limit: int

    def __call__(self, progress: RunProgress) -> Halt | None:
        """Stop once all steps are used up."""
        return Halt(f"{self.limit} steps") if len(progress.steps) >= self.limit else None


def after_steps(limit: int = DEFAULT_STEPS) -> StopCondition:
    """Stop after a number of requests to the model."""
    return StepLimit(limit)


def with_step_limit(stops: Sequence[StopCondition]) -> tuple[StopCondition, ...]:
    """The conditions, with the default step limit added if none of them is one."""
    is_limited = any(isinstance(stop, StepLimit) for stop in stops)
    return tuple(stops) if is_limited else (*stops, after_steps())


def on_call(name: str) -> StopCondition:
    """Stop when the model calls a tool; the result of the tool is the answer of the run."""

    def stop(progress: RunProgress) -> Halt | None:
        for outcome in progress.steps[-1].outcomes:
            if outcome.call.name == name and not outcome.result.is_error:
                return Halt(f"the call of {name}", outcome.result.text)
        return None

    return stop


def when(predicate: Callable[[RunProgress], bool], *, reason: str) -> StopCondition:
    """Stop when a predicate over the progress holds."""

    def stop(progress: RunProgress) -> Halt | None:
        return Halt(reason) if predicate(progress) else None

    return stop


def over_tokens(budget: int) -> StopCondition:
    """Stop once the run has used so many input and output tokens."""

    def stop(progress: RunProgress) -> Halt | None:
        spent = progress.usage.total_tokens
        return Halt(f"a budget of {budget} tokens ({spent} used)") if spent >= budget else None

    return stop


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrices:
    """Prices per million tokens: uncached input, output, cache reads and cache writes."""

    fresh: float
    output: float
    cached: float
    written: float

    def cost(self, usage: Usage) -> float:
        """The cost of a usage."""
        # `input_tokens` includes those read from and written to the cache.
        fresh = usage.input_tokens - usage.cached_tokens - usage.written_tokens
        total = (
            fresh * self.fresh
            + usage.cached_tokens * self.cached
            + usage.written_tokens * self.written
            + usage.output_tokens * self.output
        )
        return total / 1_000_000


def over_cost(budget: float, *, prices: TokenPrices) -> StopCondition:
    """Stop once the run has cost so much."""

    def stop(progress: RunProgress) -> Halt | None:
        cost = prices.cost(progress.usage)
        return Halt(f"a budget of {budget:g} ({cost:.4g} spent)") if cost >= budget else None

    return stop


def first_halt(stops: tuple[StopCondition, ...], progress: RunProgress) -> Halt | None:
    """The result of the first condition that holds, in order."""
    return next((halt for stop in stops if (halt := stop(progress))), None)
