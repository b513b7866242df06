"""Functions that do not return: their calls end, and nothing else waits for them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from threading import Event, Semaphore
from typing import Any

import pytest

from toolscout.catalog.result import Result
from toolscout.sources.function_runner import MAX_CONCURRENT_CALLS
from toolscout.sources.functions import FunctionSource

pytestmark = pytest.mark.timeout(60)

LEAVING = """
import asyncio
from threading import Event
from toolscout import Toolbox
from toolscout.config import Config

def hangs() -> None:
    "Never return."
    Event().wait()

async def main():
    config = Config(embedder="none", call_timeout_seconds=0.05)
    async with Toolbox([hangs], store="memory", config=config) as box:
        print((await (await box.session("s")).call("hangs", {})).code)

asyncio.run(main())
"""


class Press:
    """A machine that prints nothing until it has ink."""

    def __init__(self) -> None:
        self.ink, self.begun, self.printed = Event(), Semaphore(0), list[int]()

    def print_page(self, page: int) -> str:
        """Print a page."""
        self.begun.release()
        self.ink.wait()
        self.printed.append(page)
        return f"page {page}"

    def count_pages(self) -> int:
        """Count what was printed."""
        return len(self.printed)


@pytest.fixture
def press() -> Iterator[Press]:
    press = Press()
    yield press
    press.ink.set()


async def begin(press: Press, source: FunctionSource, pages: int) -> list[asyncio.Task[Result]]:
    """Calls in flight, of which as many run as may."""
    calls = [asyncio.create_task(run(source, "print_page", page=n)) for n in range(pages)]
    for _ in range(min(pages, MAX_CONCURRENT_CALLS)):
        await asyncio.to_thread(press.begun.acquire)
    return calls


async def run(source: FunctionSource, name: str, **arguments: Any) -> Result:
    tool = next(t for t in await source.tools() if t.name == name)
    return await source.call(tool, arguments)


async def test_a_function_that_does_not_return_leaves_threads_for_everything_else(press: Press):
    source = FunctionSource([press.print_page, press.count_pages])
    calls = await begin(press, source, MAX_CONCURRENT_CALLS)
    assert (await run(source, "count_pages")).value == 0
    assert await asyncio.to_thread(str, 1) == "1"
    press.ink.set()
    assert [(await call).text for call in calls] == [
        f"page {n}" for n in range(MAX_CONCURRENT_CALLS)
    ]


async def test_more_calls_than_may_run_at_once_wait_for_their_turn(press: Press):
    source = FunctionSource([press.print_page])
    calls = await begin(press, source, MAX_CONCURRENT_CALLS + 10)
    assert not press.begun.acquire(blocking=False)
    press.ink.set()
    await asyncio.gather(*calls)
    assert sorted(press.printed) == list(range(MAX_CONCURRENT_CALLS + 10))


async def test_a_call_given_up_before_its_turn_never_runs(press: Press):
    source = FunctionSource([press.print_page])
    *others, last = await begin(press, source, MAX_CONCURRENT_CALLS + 2)
    last.cancel()
    with pytest.raises(asyncio.CancelledError):
        await last
    press.ink.set()
    await asyncio.gather(*others)
    assert sorted(press.printed) == list(range(MAX_CONCURRENT_CALLS + 1))


async def test_a_call_given_up_while_it_runs_makes_room_when_it_returns(press: Press):
    source = FunctionSource([press.print_page])
    for call in await begin(press, source, MAX_CONCURRENT_CALLS):
        call.cancel()
    next_one = asyncio.create_task(run(source, "print_page", page=99))
    press.ink.set()
    assert (await next_one).text == "page 99"


def test_a_program_ends_though_a_function_of_it_never_returns():
    left = subprocess.run(
        [sys.executable, "-c", LEAVING], capture_output=True, text=True, timeout=45, check=True
    )
    assert left.stdout == "timeout\n"
