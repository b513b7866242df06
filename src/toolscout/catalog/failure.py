"""Exceptions that a tool raises, turned into error results."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from ..errors import CallError
from .result import Result

# Everything else that a tool raises ends only its call: `sys.exit()` must not end the host program,
# and a tool may raise CancelledError itself. Of these two, one is meant for the program, and with
# the other Python closes a coroutine.
_NOT_FROM_TOOLS = (KeyboardInterrupt, GeneratorExit)


# Exceptions with which a framework suspends or ends its own run. A context variable, because tools
# fail inside sources, which know nothing of the framework.
_PASSED: ContextVar[tuple[type[BaseException], ...]] = ContextVar("passed_exceptions", default=())


@contextmanager
def pass_exceptions(types: tuple[type[BaseException], ...]) -> Generator[None]:
    """Let these exceptions of tools through to the caller, while the block runs."""
    token = _PASSED.set(types)
    try:
        yield
    finally:
        _PASSED.reset(token)


def is_passed(error: BaseException) -> bool:
    """Whether an exception goes through to the caller instead of becoming a result."""
    return isinstance(error, _PASSED.get())


def failure_result(name: str, error: BaseException) -> Result:
    """The error result of a tool that raised.

    A cancellation of the call itself is raised again, and so is an exception that is passed on.
    """
    if isinstance(error, _NOT_FROM_TOOLS) or is_passed(error):
        raise error
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
