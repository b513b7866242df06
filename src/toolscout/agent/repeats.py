"""Detects a model that repeats the same call without effect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

from ..catalog.result import Result
from ..models.messages import Call
from .steps import RunStep

# A model that repeats a call is warned first, within a window of steps; after three steps with the
# same result the call is not run again; after five the run ends.
WINDOW = 3
REFUSED_AT = 3
STOPPED_AT = 5


def call_signature(call: Call) -> tuple[str, str]:
    """The name and the arguments in canonical JSON, which identify a call."""
    values = call.values()
    if values is None:
        return call.name, call.arguments
    return call.name, json.dumps(values, sort_keys=True, ensure_ascii=False)


def repeat_warning(steps: Sequence[RunStep]) -> str | None:
    """A warning for a model that made the same call twice in a row within the last steps."""
    recent = [o.call for step in steps[-WINDOW:] for o in step.outcomes]
    # Only for calls of the newest step, so that the model is warned once.
    newest = {call_signature(o.call) for step in steps[-1:] for o in step.outcomes}
    for before, after in pairwise(recent):
        if call_signature(before) == call_signature(after) and call_signature(after) in newest:
            return (
                f"You called {after.name} with the same arguments twice in a row. Calling it again "
                "gives nothing new: use the result you have, change the arguments, try another "
                "tool, or tell the user what is in the way."
            )
    return None


class RepeatTracker:
    """The calls of the newest steps by signature."""

    def __init__(self, steps: Sequence[RunStep]) -> None:
        self._newest_first = [
            {call_signature(outcome.call): outcome for outcome in step.outcomes}
            for step in reversed(steps[-STOPPED_AT:])
        ]

    def count_repeats(self, call: Call) -> int:
        """How many of the newest steps in a row made the same call with the same result."""
        signature = call_signature(call)
        count = 0
        result: Result | None = None
        for step in self._newest_first:
            outcome = step.get(signature)
            if outcome is None:
                break
            # A refused repeat has no result of the tool to compare, but it counts.
            if not (outcome.is_repeat or result is None or outcome.result == result):
                break
            result = result if outcome.is_repeat else outcome.result
            count += 1
        return count


def repeat_refusal(call: Call, count: int) -> Result:
    """The result of a call that is not repeated again."""
    return Result.error(
        f"{call.name} was not run: the last {count} steps made this very call and got the same "
        "result each time. Do something else, or tell the user what is in the way."
    )
