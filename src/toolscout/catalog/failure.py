"""Exceptions that a tool raises, turned into error results."""

from __future__ import annotations

import asyncio

from ..errors import CallError
from .result import Result

# These end only the call. `sys.exit()` in a tool must not end the host program, and a tool may
# raise CancelledError itself. KeyboardInterrupt is left out: it is meant for the program.
TOOL_FAILURES = (Exception, SystemExit, asyncio.CancelledError)


def failure_result(name: str, error: BaseException) -> Result:
    """The error result of a tool that raised; a cancellation of the call itself is raised again."""
    if isinstance(error, asyncio.CancelledError) and is_cancelled():
        raise error
    message = f": {error}" if str(error) else ""
    return Result.error(f"{name} failed: {type(error).__name__}{message}", code=CallError.code)


def is_cancelled() -> bool:
    """Whether the current task was cancelled, in contrast to a tool that raised CancelledError."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop in this thread, so nothing can be cancelled
        return False
    return task is not None and task.cancelling() > 0
