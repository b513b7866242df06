"""Reading a stream in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from typing import TypeVar

_T = TypeVar("_T")


async def stream_in_task(source: AsyncIterable[_T]) -> AsyncGenerator[_T]:
    """The same items, such that leaving early closes the source cleanly.

    The SDKs read through generators within generators. Left in the middle, those are closed by
    the garbage collector in no good order; a task cancelled at its innermost wait unwinds them
    all from within.
    """
    queue: asyncio.Queue[tuple[_T] | None] = asyncio.Queue()
    task = asyncio.create_task(_fill(queue, source))
    try:
        while (got := await queue.get()) is not None:
            yield got[0]
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()


async def _fill(queue: asyncio.Queue[tuple[_T] | None], source: AsyncIterable[_T]) -> None:
    try:
        async for item in source:
            queue.put_nowait((item,))
    finally:
        queue.put_nowait(None)
