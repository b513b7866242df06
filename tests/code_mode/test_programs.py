"""Programs call tools as the model itself would, and only their own output comes back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from toolscout.catalog.result import Content, Result
from toolscout.config import Config
from toolscout.errors import MissingExtraError
from toolscout.events import Event, OffloadEvent, ToolCallEvent
from toolscout.sources.functions import tool
from toolscout.toolbox.session import Session
from toolscout.toolbox.toolbox import Toolbox

LONG = "line of a long report\n" * 20_000


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The first number.
    """
    return a + b


@tool
async def wait(seconds: float) -> dict[str, float]:
    """Wait for some seconds."""
    await asyncio.sleep(seconds)
    return {"seconds": seconds}


@tool
def fail(why: str) -> str:
    """Fail with a reason."""
    raise ValueError(why)


@tool
def report() -> str:
    """Write a long report."""
    return LONG


@tool
def picture() -> Result:
    """Draw a picture."""
    return Result(content=(Content(type="image", data="AAAA", mime="image/png"),))


Open = Callable[..., Awaitable[Session]]


@pytest.fixture
async def open_session(tmp_path: Path) -> AsyncIterator[Open]:
    boxes: list[Toolbox] = []

    async def open_one(**options: Any) -> Session:
        settings = {"embedder": "none", "home": tmp_path, **options.pop("config", {})}
        box = Toolbox(
            [add, wait, fail, report, picture],
            profile=options.pop("profile", "code"),
            store="memory",
            config=Config.read(**settings),
            sink=options.pop("sink", lambda _: None),
        )
        boxes.append(await box.__aenter__())
        return await box.session("s", **options)

    yield open_one
    for box in boxes:
        await box.close()


async def run(session: Session, code: str) -> Result:
    return await session.call("run_code", {"code": code})


async def test_a_model_sees_a_search_and_run_code_and_finds_typed_stubs(open_session: Open) -> None:
    session = await open_session()
    assert [t.name for t in session.step().tools] == ["tool_search", "describe_tools", "run_code"]
    found = await session.call("tool_search", {"query": "add two numbers"})
    assert "class tools:\n    async def add(self, *, a: int, b: int = ...)" in found.text
    assert "a: The first number." in found.text


async def test_the_last_expression_and_what_was_printed_come_back(open_session: Open) -> None:
    session = await open_session()
    result = await run(session, "x = await tools.add(a=2)\nprint('two and one')\nx")
    assert (result.text, result.is_error) == ("two and one\n3", False)
    value = await run(session, '{"sum": await call_tool("add", {"a": 1, "b": 4})}')
    assert value.value == {"sum": 5}
    silent = await run(session, "x = await tools.add(a=2)")
    assert silent.text == "The program ended after 1 call; it printed nothing."


async def test_gathered_calls_run_at_the_same_time(open_session: Open) -> None:
    session = await open_session()
    started = time.monotonic()
    result = await run(
        session,
        "import asyncio\nlen(await asyncio.gather(*[tools.wait(seconds=0.5) for _ in range(50)]))",
    )
    assert result.value == 50
    assert time.monotonic() - started < 25 * 0.5  # one after the other they take 25 seconds


async def test_at_most_so_many_calls_run_at_the_same_time(open_session: Open) -> None:
    session = await open_session(config={"code_parallel_calls": 2})
    started = time.monotonic()
    code = "import asyncio\nlen(await asyncio.gather(*[tools.wait(seconds=0.2) for _ in range(6)]))"
    assert (await run(session, code)).value == 6
    assert time.monotonic() - started >= 3 * 0.2


@pytest.mark.parametrize(
    ("code", "place", "words"),
    [
        ("x = 1\nawait tools.add(a='one')", "line 2, column 17", "Expected `int`"),
        ("await tools.add(b=1)", "line 1, column 7", "No argument provided for required"),
        ("await tools.add(a=1, c=2)", "line 1, column 22", "`c` does not match any known"),
        ("for x in range(3)\n    pass", "line 1", "Expected"),
    ],
)
async def test_a_wrong_call_is_refused_before_anything_runs(
    open_session: Open, code: str, place: str, words: str
) -> None:
    events: list[Event] = []
    session = await open_session(sink=events.append)
    result = await run(session, f"{code}\nawait tools.add(a=1)")
    assert result.is_error
    assert result.text.startswith("Nothing ran.")
    assert place in result.text
    assert words in result.text
    assert "await tools.add(a: int, b: int = ...)" in result.text
    assert not any(isinstance(e, ToolCallEvent) and e.tool == "add" for e in events)


async def test_a_failed_call_raises_and_the_program_can_continue(open_session: Open) -> None:
    session = await open_session()
    code = (
        "try:\n    await tools.fail(why='no paper')\nexcept RuntimeError as e:\n    x = str(e)\nx"
    )
    assert "no paper" in (await run(session, code)).text


async def test_a_failure_says_which_calls_ran_with_what_result(open_session: Open) -> None:
    session = await open_session()
    result = await run(session, "print('so far')\nx = await tools.add(a=41)\n1 / 0")
    assert result.is_error
    assert "ZeroDivisionError: division by zero" in result.text
    assert 'add({"a":41}) -> 42' in result.text
    assert "Printed:\nso far" in result.text


async def test_a_call_gets_the_whole_value_and_only_the_output_is_stored(
    open_session: Open,
) -> None:
    events: list[Event] = []
    session = await open_session(config={"large_outputs": True}, sink=events.append)
    counted = await run(session, "len(await tools.report())")
    assert counted.value == len(LONG)
    assert not any(isinstance(e, OffloadEvent) for e in events)
    whole = await run(session, "await tools.report()")
    assert len(whole.text) < len(LONG) / 2
    assert "read" in whole.text


async def test_other_content_than_text_arrives_as_a_dictionary(open_session: Open) -> None:
    session = await open_session()
    assert (await run(session, "(await tools.picture())[0]['mime']")).text == "image/png"


async def test_a_program_cannot_make_more_calls_than_allowed(open_session: Open) -> None:
    session = await open_session(config={"code_calls": 3})
    result = await run(session, "for i in range(9):\n    await tools.add(a=i)")
    assert "add was not run: a program may make 3 calls" in result.text
    assert 'add({"a":2}) -> 3' in result.text


async def test_every_inner_call_is_an_event_with_the_program_as_its_parent(
    open_session: Open,
) -> None:
    events: list[Event] = []
    session = await open_session(sink=events.append)
    await run(session, "[await tools.add(a=n) for n in range(2)]")
    ends = {e.tool: e for e in events if isinstance(e, ToolCallEvent)}
    inner = [e for e in events if isinstance(e, ToolCallEvent) and e.tool == "add"]
    assert [e.parent for e in inner] == [ends["run_code"].id] * 2


async def test_search_and_describe_work_inside(open_session: Open) -> None:
    session = await open_session()
    hits = (await run(session, "search('add two numbers', limit=1)")).value
    assert [hit["name"] for hit in hits] == ["add"]
    assert hits[0]["call"].startswith("await tools.add(a: int")
    assert "async def add" in (await run(session, "describe('add')")).text
    assert "no tool 'nothing'" in (await run(session, "describe('nothing')")).text


async def test_a_cancelled_program_stops_its_calls_and_its_worker(open_session: Open) -> None:
    session = await open_session()
    await run(session, "1")
    task = asyncio.create_task(run(session, "await tools.wait(seconds=600)"))
    await asyncio.sleep(0.5)
    busy = asyncio.create_task(run(session, "while True:\n    pass"))
    await asyncio.sleep(0.3)
    for one in (task, busy):
        one.cancel()
    started = time.monotonic()
    await asyncio.gather(task, busy, return_exceptions=True)
    assert time.monotonic() - started < 4  # below the limit of the loop's own time
    assert (await run(session, "await tools.add(a=1)")).value == 2


async def test_a_killed_worker_costs_one_program(open_session: Open) -> None:
    session = await open_session()
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    code = "x = await tools.add(a=1)\nawait tools.wait(seconds=3)\nx"
    task = asyncio.create_task(run(session, code))
    other = asyncio.create_task(run(session, "await tools.wait(seconds=3)\n'fine'"))
    await asyncio.sleep(1)
    workers = [p for p in psutil.Process().children(recursive=True) if p.pid not in before]
    assert len(workers) >= 2
    os.kill(workers[0].pid, signal.SIGKILL)
    results = await asyncio.gather(task, other)
    texts = sorted(result.text for result in results)
    assert sum(result.is_error for result in results) == 1
    assert "The sandbox of the program ended unexpectedly." in "".join(texts)
    assert "wait(" in "".join(texts)
    assert (await run(session, "await tools.add(a=1)")).value == 2


async def test_any_profile_can_have_run_code_beside_its_own_tools(open_session: Open) -> None:
    session = await open_session(profile="mcpagent", config={"code": True})
    assert "run_code" in [t.name for t in session.step().tools]
    found = await session.call("search_tools", {"query": "add"})
    assert "async def add(self, *, a: int" in found.text
    assert (await run(session, "await tools.add(a=1)")).value == 2


def test_without_the_extra_the_error_has_the_pip_command() -> None:
    program = (
        "import sys\nsys.modules['pydantic_monty'] = None\n"
        "from toolscout import Toolbox\nToolbox([], profile='code')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert MissingExtraError.__name__ in done.stderr
    assert "pip install 'toolscout[code]'" in done.stderr
