"""Running a tool: whatever happens in there comes back as a result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

from ..catalog.failure import OWN, failed
from ..catalog.result import Content, Result
from ..catalog.tool import Tool
from ..errors import CallError, ToolscoutError


async def run(tool: Tool, work: Awaitable[Result], *, timeout_seconds: float) -> Result:
    """Wait for a tool; failures, hanging and empty answers become results that say so."""
    try:
        async with asyncio.timeout(timeout_seconds):
            result = Result.of(await work)
    except TimeoutError:
        return Result.error(
            f"{tool.name} gave no answer within {timeout_seconds:g} seconds; what it began may"
            " still take effect. Check before you try again.",
            code="timeout",
        )
    except ToolscoutError as error:
        return Result.error(str(error), code=error.code)
    except OWN as error:  # nothing raises into the loop
        return failed(tool.name, error)
    if result.is_error and not result.code:
        result = replace(result, code=CallError.code)
    return told(tool.name, result)


def told(name: str, result: Result) -> Result:
    """The result, or words where it has none: an empty answer puzzles a model."""
    if result.structured or any(c.text or c.data or c.uri for c in result.content):
        return result
    words = "failed without saying why" if result.is_error else "ran and returned nothing"
    return Result(
        content=(Content(text=f"{name} {words}."),),
        is_error=result.is_error,
        code=result.code,
        raw=result.raw,
    )
