"""What of all that can be raised is a tool's own failure, and how it is told."""

from __future__ import annotations

import asyncio

from ..errors import CallError
from .result import Result

TOOL_FAILURES = (Exception, SystemExit, asyncio.CancelledError)
"""What a tool may raise that ends its call and nothing else; an interrupt is the program's."""


def failure_result(name: str, error: BaseException) -> Result:
    """The result of a tool that raised; where it was the call that was cancelled, that goes on."""
    if isinstance(error, asyncio.CancelledError) and is_cancelled():
        raise error
    said = f": {error}" if str(error) else ""
    return Result.error(f"{name} failed: {type(error).__name__}{said}", code=CallError.code)


def is_cancelled() -> bool:
    """Whether somebody wants the task at hand to end; a tool may also raise that by itself."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # in a thread of its own, where nothing is ever cancelled
        return False
    return task is not None and task.cancelling() > 0
