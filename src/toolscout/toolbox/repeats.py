"""Detects a model that repeats the same call without effect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

from ..catalog.result import Result
from ..models.messages import Call
from .call_record import CallRecord

# A model that repeats a call is warned first, within a window of steps; after three steps with the
# same result the call is not run again; after five the run ends.
WINDOW = 3
REFUSED_AT = 3
STOPPED_AT = 5

StepRecords = Sequence[CallRecord]
"""The calls of one step."""


def call_signature(call: Call) -> tuple[str, str]:
    """The name and the arguments in canonical JSON, which identify a call."""
    values = call.values()
    if values is None:
        return call.name, call.arguments
    return call.name, json.dumps(values, sort_keys=True, ensure_ascii=False)


def repeat_warning(steps: Sequence[StepRecords]) -> str | None:
    """A warning for a model that made the same call twice in a row within the last steps."""
    # A refused call brought no result, and may well succeed the next time.
    answered = [[r.call for r in step if not _was_refused(r)] for step in steps[-WINDOW:]]
    recent = [call for calls in answered for call in calls]
    # Only for calls of the newest step, so that the model is warned once.
    newest = {call_signature(call) for calls in answered[-1:] for call in calls}
    for before, after in pairwise(recent):
        if call_signature(before) == call_signature(after) and call_signature(after) in newest:
            return (
                f"You called {after.name} with the same arguments twice in a row. Calling it again "
                f"gives nothing new: use the result you have, change the arguments, try another "
                f"tool, or tell the user what the problem is."
            )
    return None


def _was_refused(record: CallRecord) -> bool:
    return record.result.is_error and not (record.is_run or record.is_discovery)


class RepeatTracker:
    """The calls of the newest steps by signature."""

    def __init__(self, steps: Sequence[StepRecords]) -> None:
        self._newest_first = [
            {call_signature(record.call): record for record in step}
            for step in reversed(steps[-STOPPED_AT:])
        ]

    def count_repeats(self, call: Call) -> int:
        """How many of the newest steps in a row made the same call with the same result."""
        if not self._newest_first:
            return 0
        signature = call_signature(call)
        count = 0
        result: Result | None = None
        for step in self._newest_first:
            record = step.get(signature)
            if record is None:
                break
            # A refused repeat has no result of the tool to compare, but it counts.
            if not (record.is_repeat or result is None or record.result == result):
                break
            result = result if record.is_repeat else record.result
            count += 1
        return count


def repeat_refusal(call: Call, count: int) -> str:
    """The text for the model about a call that is not repeated again."""
    return (
        f"{call.name} was not run: the last {count} steps made the same call and got the same "
        f"result. Do something else, or tell the user what the problem is."
    )
