"""Noticing that a model goes round in circles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

from ..catalog.result import Result
from ..models.messages import Call
from .steps import RunStep

WINDOW = 3
REFUSED_AT = 3
STOPPED_AT = 5


def call_signature(call: Call) -> tuple[str, str]:
    """What makes two calls the same: the name and the arguments, however they are spelled."""
    values = call.values()
    if values is None:
        return call.name, call.arguments
    return call.name, json.dumps(values, sort_keys=True, ensure_ascii=False)


def repeat_warning(steps: Sequence[RunStep]) -> str | None:
    """What to tell a model that made the same call twice in a row within the last steps."""
    recent = [r.call for step in steps[-WINDOW:] for r in step.ran]
    newest = {call_signature(r.call) for r in steps[-1].ran} if steps else set[tuple[str, str]]()
    for before, after in pairwise(recent):
        if call_signature(before) == call_signature(after) and call_signature(after) in newest:
            return (
                f"You called {after.name} with the same arguments twice in a row. Calling it again "
                "gives nothing new: use the result you have, change the arguments, try another "
                "tool, or tell the user what is in the way."
            )
    return None


class RepeatTracker:
    """The newest steps, indexed by what they called."""

    def __init__(self, steps: Sequence[RunStep]) -> None:
        self._newest_first = [
            {call_signature(ran.call): ran for ran in step.ran}
            for step in reversed(steps[-STOPPED_AT:])
        ]

    def count_repeats(self, call: Call) -> int:
        """How many of the newest steps in a row made this very call, to the very same effect."""
        wanted = call_signature(call)
        times = 0
        result: Result | None = None
        for step in self._newest_first:
            ran = step.get(wanted)
            if ran is None or not (ran.is_repeat or result is None or ran.result == result):
                break
            result = result if ran.is_repeat else ran.result
            times += 1
        return times


def repeat_refusal(call: Call, times: int) -> Result:
    """The answer to a call that is not made once more."""
    return Result.error(
        f"{call.name} was not run: the last {times} steps made this very call and got the same "
        "result each time. Do something else, or tell the user what is in the way."
    )
