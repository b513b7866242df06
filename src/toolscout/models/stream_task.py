"""Read an async stream in its own task, so that leaving it early closes it cleanly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from typing import TypeVar

_T = TypeVar("_T")


async def stream_in_task(source: AsyncIterable[_T]) -> AsyncGenerator[_T]:
    """The items of a source that is closed cleanly when the caller leaves early."""
    # The Google SDK reads through generators within generators. Left in the middle, the garbage
    # collector closes them in an arbitrary order. A task that is cancelled at its innermost await
    # unwinds all of them from the inside.
    queue: asyncio.Queue[tuple[_T] | None] = asyncio.Queue()
    task = asyncio.create_task(_fill(queue, source))
    try:
        # Items travel in a tuple of one, so that None can mean the end.
        while (item := await queue.get()) is not None:
            yield item[0]
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])
        # Retrieve the exception, or asyncio logs that nobody did.
        if not task.cancelled():
            task.exception()


async def _fill(queue: asyncio.Queue[tuple[_T] | None], source: AsyncIterable[_T]) -> None:
    try:
        async for item in source:
            queue.put_nowait((item,))
    finally:
        queue.put_nowait(None)
