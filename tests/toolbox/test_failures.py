"""Whatever a tool raises ends its own call, at once, and nothing else."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from toolscout.catalog.result import Content, Result
from toolscout.catalog.tool import Tool
from toolscout.config import Config
from toolscout.events import Event
from toolscout.toolbox.toolbox import Toolbox


def finds_none() -> int:
    """Raises StopIteration, as `next` does of what is empty."""
    return next(iter(()))


async def finds_none_later() -> int:
    """The same."""
    return next(iter(()))


def leaves() -> None:
    """Runs a script that ends."""
    sys.exit(3)


async def leaves_later() -> None:
    """The same."""
    sys.exit(3)


async def cancels() -> None:
    """Waits for something that was cancelled."""
    waiting = asyncio.get_running_loop().create_future()
    waiting.cancel()
    await waiting


def cancels_in_a_thread() -> None:
    """The same without waiting."""
    raise asyncio.CancelledError


def breaks() -> None:
    """Raises an error."""
    raise ValueError("no ink left")


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (finds_none, "StopIteration"),
        (finds_none_later, "StopIteration"),
        (leaves, "SystemExit: 3"),
        (leaves_later, "SystemExit: 3"),
        (cancels, "CancelledError"),
        (cancels_in_a_thread, "CancelledError"),
        (breaks, "ValueError: no ink left"),
    ],
)
async def test_whatever_a_tool_raises_is_its_result_at_once(
    open_box: Any, function: Any, told: str
):
    events: list[Event] = []
    box = await open_box(function, sink=events.append, config=Config.read(call_timeout_seconds=60))
    session = await box.session("s")
    async with asyncio.timeout(30):
        result = await session.call(function.__name__, {})
    assert (result.is_error, result.code) == (True, "call")
    assert told in result.text
    ran = [e.facts for e in events if e.kind == "tool_call"]
    assert [(f["is_error"], f["code"]) for f in ran] == [(True, "call")]


class Odd:
    """A source that keeps no contract."""

    name = "odd"

    async def tools(self) -> list[Tool]:
        return [Tool(name=n) for n in ("leave", "fail", "text", "half")]

    async def call(self, tool: Tool, arguments: Any) -> Any:
        match tool.name:
            case "leave":
                sys.exit(1)
            case "fail":
                return Result((Content(text="it is broken"),), is_error=True)
            case "half":
                return Result((Content(text="caf\udce9.txt"),))
            case _:
                return "only text"

    async def close(self) -> None: ...


async def test_a_source_of_ones_own_is_held_to_the_same(open_box: Any):
    session = await (await open_box(Odd())).session("s")
    assert (await session.call("leave", {})).code == "call"
    assert (await session.call("fail", {})).code == "call"
    assert (await session.call("text", {})).text == "only text"
    assert (await session.call("half", {})).text == "caf\ufffd.txt"


async def test_a_call_that_somebody_cancels_is_cancelled(open_box: Any):
    begun = asyncio.Event()

    async def waits() -> None:
        """Wait for ever."""
        begun.set()
        await asyncio.Event().wait()

    session = await (await open_box(waits)).session("s")
    task = asyncio.create_task(session.call("waits", {}))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_an_interrupt_is_not_a_result():
    def interrupted() -> None:
        """What Ctrl-C does."""
        raise KeyboardInterrupt

    async def main() -> None:
        async with Toolbox([interrupted], store="memory") as box:
            await (await box.session("s")).call("interrupted", {})

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


async def test_arguments_have_no_half_of_a_surrogate_pair_when_a_tool_sees_them(open_box: Any):
    seen: list[Any] = []

    def take(names: list[str], rest: dict[str, Any]) -> str:
        """Take names."""
        seen.append((names, rest))
        return names[0]

    events: list[Event] = []
    session = await (await open_box(take, sink=events.append)).session("s")
    half = {"names": ["a\ud800"], "rest": {"\udfff": ["\ud83d\ude00"]}}
    written = '{"names": ["a\\ud800"], "rest": {"\\udfff": ["\\ud83d\\ude00"]}}'
    for arguments in (half, written):
        assert (await session.call("take", arguments)).text == "a\ufffd"
    assert seen == [(["a\ufffd"], {"\ufffd": ["😀"]})] * 2
    await session.call("tool\ud800", {})
    await session.call("tool_search", {"query": "take \ud800"})
    for event in events:
        repr(event.facts).encode()
        assert "\\ud800" not in repr(event.facts)
