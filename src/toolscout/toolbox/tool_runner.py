"""Waits for a tool; failures, time-outs and empty answers become results that say so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

from ..catalog.failure import failure_result, is_passed
from ..catalog.questions import stop_while_asking
from ..catalog.result import Content, Result
from ..catalog.tool import Tool
from ..errors import CallError, ToolscoutError


async def run_tool(tool: Tool, work: Awaitable[Result], *, timeout_seconds: float | None) -> Result:
    """Wait for a tool; failures, time-outs and empty answers become results that say so."""
    limit = asyncio.timeout(timeout_seconds)
    try:
        async with limit:
            with stop_while_asking(limit):
                result = Result.of(await work)
    except BaseException as error:  # noqa: BLE001 - a tool may raise anything
        if limit.expired() and isinstance(error, TimeoutError):
            return Result.error(
                f"{tool.name} gave no answer within {timeout_seconds:g} seconds; it may still take "
                f"effect. Check before you try again.",
                code="timeout",
            )
        if isinstance(error, ToolscoutError) and not is_passed(error):
            return Result.error(str(error), code=error.code)
        return failure_result(tool.name, error)
    if result.is_error and not result.code:
        result = replace(result, code=CallError.code)
    return fill_empty_result(tool.name, result)


def fill_empty_result(name: str, result: Result) -> Result:
    """The result; one without content gets a sentence, because models misread an empty answer."""
    if result.structured or any(c.text or c.data or c.uri for c in result.content):
        return result
    message = "failed without saying why" if result.is_error else "ran and returned nothing"
    return Result(
        content=(Content(text=f"{name} {message}."),),
        is_error=result.is_error,
        code=result.code,
        raw=result.raw,
    )
