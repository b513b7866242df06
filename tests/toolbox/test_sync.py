"""The synchronous twin: the same toolbox for programs without an event loop."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from toolscout.catalog.result import Result
from toolscout.errors import ClosedError, ToolscoutError
from toolscout.models.messages import Call
from toolscout.store.sqlite import SqliteStore
from toolscout.toolbox.session import Session
from toolscout.toolbox.step import Step, StepHooks
from toolscout.toolbox.sync import SyncSession, SyncStep
from toolscout.toolbox.toolbox import SyncToolbox, Toolbox

from .conftest import OFFICE


class Suspended(Exception):
    """What a framework raises to suspend its run."""


def open_sync(*sources: Any, **options: Any) -> SyncToolbox:
    options.setdefault("store", "memory")
    return Toolbox(sources or OFFICE, **options).sync()


def own_threads() -> list[str]:
    names = (thread.name for thread in threading.enumerate())
    return [name for name in names if name.startswith(("toolscout-loop", "toolscout-worker"))]


# Use


def test_a_program_without_an_event_loop_searches_and_calls() -> None:
    with open_sync(profile="cms") as box:
        assert box.search("send an email message").hits[0].name == "send_email"
        session = box.session("s")
        assert session.id == "s"
        assert [t["name"] for t in session.view("anthropic").tools] == ["tool_search"]
        assert "send_email" in session.call("tool_search", {"query": "send an email"}).text
        done = session.call("send_email", {"to": "ann", "subject": "Hi"})
        assert done.text == "1 sent to ann: Hi"
        assert session.state.loaded[0] == "send_email"
        assert session.why("send_email").reason
        assert "send_email" in session.stats().in_view
        session.unload("send_email")
        assert "send_email" not in session.state.loaded


def test_a_step_makes_the_calls_of_a_reply() -> None:
    with open_sync(profile="cms") as box:
        session = box.session("s")
        step = session.step("plain")
        assert [t.role for t in step.tools] == ["discovery"]
        assert step.instructions == step.view.instructions
        found, sent = step.run(
            [
                Call("1", "tool_search", '{"query": "send an email message"}'),
                Call("2", "send_email", '{"to": "ann", "subject": "Hi"}'),
            ]
        )
        assert "send_email" in found.enabled
        assert sent.result.text == "1 sent to ann: Hi"
        assert step.native_answer(found) == ""
        assert step.records == (found, sent)
        assert [record.call.id for record in step.finish()] == ["1", "2"]
        with pytest.raises(ToolscoutError, match="This step is finished"):
            step.call("send_email")
        (last,) = session.step().answer([Call("3", "send_email", '{"to": "b", "subject": "Yo"}')])
        assert last.result.text == "1 sent to b: Yo"


def test_a_reply_of_an_sdk_is_answered() -> None:
    call = {"id": "c", "type": "tool_use", "name": "get_weather", "input": {"city": "Oslo"}}
    reply = {"role": "assistant", "stop_reason": "tool_use", "content": [call]}
    with open_sync() as box:
        messages = box.session("s").answer(reply)
    assert "clear" in json.dumps(messages[-1])


def test_sources_and_sessions_are_managed_as_in_the_async_toolbox() -> None:
    def extra(word: str) -> str:
        """Say an extra word."""
        return word

    with open_sync() as box:
        before = len(box.catalog)
        box.add(extra)
        assert len(box.catalog) == before + 1
        box.refresh()
        session = box.session("s")
        session.load("extra")
        session.save()
        assert [record.key for record in box.sessions()] == ["s"]
        assert box.forget("s")
        assert box.sessions() == ()
        assert box.problems == {}
        assert box.health().status == "ok"
        assert box.profile.name
        (source,) = {box.catalog.source_of("extra")}
        box.remove(source or "")
        assert "extra" not in box.catalog


def test_a_call_that_needs_approval_is_approved_later() -> None:
    with open_sync() as box:
        session = box.session("s")
        needs = session.step().call("delete_page", {"page": 3}).needs
        assert needs is not None
        assert session.approvals() == (needs,)
        assert session.approve(needs.id).result.text == "page 3 is gone"
        other = session.step().call("delete_page", {"page": 4}).needs
        assert other is not None
        assert "too soon" in session.refuse(other, reason="too soon").result.text
        assert session.approvals() == ()


@pytest.mark.parametrize("is_async", [True, False])
def test_exceptions_that_pass_reach_the_calling_thread(is_async: bool) -> None:
    async def suspend_later() -> str:
        """Suspend the run."""
        raise Suspended("later")

    def suspend() -> str:
        """Suspend the run."""
        raise Suspended("later")

    chosen: Callable[..., Any] = suspend_later if is_async else suspend
    with open_sync(chosen) as box:
        session = box.session("s")
        with pytest.raises(Suspended, match="later"):
            session.step(passes=[Suspended]).call(chosen.__name__)
        with pytest.raises(Suspended, match="later"):
            session.step(passes=[Suspended]).run([Call("1", chosen.__name__)])
        assert "Suspended" in session.step().call(chosen.__name__).result.text


def test_hooks_run_around_the_calls() -> None:
    class Loud(StepHooks):
        async def after_call(self, call: Call, result: Result) -> Result | None:
            return Result.of(result.text.upper())

    with open_sync() as box:
        record = box.session("s").step(hooks=Loud()).call("get_weather", {"city": "Oslo"})
    assert "OSLO" in record.result.text


def test_context_variables_of_the_caller_reach_the_tool() -> None:
    user: ContextVar[str] = ContextVar("user", default="nobody")

    async def whoami() -> str:
        """Tell who calls."""
        return user.get()

    with open_sync(whoami) as box:
        user.set("ann")
        assert box.session("s").call("whoami").text == "ann"


# Threads and loops


def test_calls_of_several_threads_run_side_by_side() -> None:
    meeting = threading.Barrier(4)

    def meet(label: str) -> str:
        """Wait for three others."""
        meeting.wait(60)
        return label

    with open_sync(meet) as box, ThreadPoolExecutor(4) as threads:
        session = box.session("s")

        def call(label: str) -> str:
            return session.call("meet", {"label": label}).text

        assert [*threads.map(call, "abcd")] == [*"abcd"]


def test_many_threads_that_share_sessions_lose_nothing() -> None:
    def note(number: int) -> str:
        """Note a number."""
        return f"noted {number}"

    with open_sync(note, *OFFICE) as box, ThreadPoolExecutor(8) as threads:

        def work(number: int) -> tuple[str, int]:
            session = box.session(f"s{number % 4}")
            assert box.search("send an email").hits
            step = session.step()
            step.call("tool_search", {"query": f"archive {number}"})
            noted = step.call("note", {"number": number})
            return noted.result.text, len(step.finish())

        assert [*threads.map(work, range(64))] == [(f"noted {n}", 2) for n in range(64)]
        searches = [len(box.session(f"s{n}").state.searches) for n in range(4)]
    assert searches == [16] * 4


async def test_it_works_beside_a_running_loop_as_in_a_notebook() -> None:
    with open_sync() as box:
        assert "clear" in box.session("s").call("get_weather", {"city": "Oslo"}).text


def test_a_plain_tool_may_use_the_toolbox_that_runs_it() -> None:
    def count_tools() -> str:
        """Count the tools."""
        return str(len(box.session("inner").stats().tools))

    with open_sync(count_tools) as box:
        assert box.session("outer").call("count_tools").text == "1"


def test_an_async_tool_that_uses_the_toolbox_gets_an_error_instead_of_a_deadlock() -> None:
    async def search_again() -> str:
        """Search from inside a tool."""
        return str(box.session("inner"))

    async def close_it() -> str:
        """Close the toolbox from inside a tool."""
        box.close()
        return "closed"

    with open_sync(search_again, close_it) as box:
        session = box.session("outer")
        for name in ("search_again", "close_it"):
            assert "inside its own event loop" in session.call(name).text
        assert session.step().call("search_again").is_run  # the toolbox goes on


# Entering and leaving


def test_use_before_entering_says_what_to_write() -> None:
    box = open_sync()
    for use in (lambda: box.search("mail"), lambda: box.session("s"), box.health, box.sessions):
        with pytest.raises(ToolscoutError, match=r"with Toolbox\(\.\.\.\)\.sync\(\) as box"):
            use()
    box.close()  # nothing to close


def test_use_after_leaving_says_that_it_is_closed() -> None:
    with open_sync() as box:
        session = box.session("s")
        step = session.step()
    uses: list[Callable[[], Any]] = [
        lambda: box.search("mail"),
        lambda: box.session("s"),
        lambda: session.call("get_weather"),
        session.view,
        session.step,
        lambda: step.call("get_weather"),
        step.finish,
    ]
    for use in uses:
        with pytest.raises(ClosedError, match="is closed"):
            use()
    box.close()  # closing twice is fine
    assert session.state.id == "s"  # what was read before stays readable


def test_it_is_entered_once() -> None:
    with open_sync() as box, pytest.raises(ToolscoutError, match="entered before"):
        box.__enter__()
    with pytest.raises(ToolscoutError, match="entered before"):
        box.__enter__()


async def test_a_toolbox_that_is_open_elsewhere_is_not_entered_a_second_time() -> None:
    async with Toolbox(OFFICE, store="memory") as box:
        with pytest.raises(ToolscoutError, match="open already"), box.sync():
            pass
        assert "clear" in (await (await box.session("s")).call("get_weather", {"city": "x"})).text
    assert own_threads() == []


def test_leaving_closes_the_sources_even_after_an_exception() -> None:
    closed: list[str] = []

    class Telling:
        name = "telling"

        async def tools(self) -> tuple[Any, ...]:
            return ()

        async def call(self, tool: Any, arguments: Any) -> Result:
            return Result.of("")

        async def close(self) -> None:
            closed.append(self.name)

    with pytest.raises(ZeroDivisionError), open_sync(Telling()):
        _ = 1 / 0
    assert closed == ["telling"]
    assert own_threads() == []


def test_leaving_saves_what_no_call_followed(file: Path) -> None:
    with open_sync(store=file) as box:
        box.session("s").view("anthropic")
    with open_sync(store=file) as box:
        assert [record.key for record in box.sessions()] == ["s"]
    assert own_threads() == []


def test_leaving_ends_the_calls_of_other_threads() -> None:
    started, ended = threading.Event(), threading.Event()

    async def hang() -> str:
        """Wait for ever."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    with ThreadPoolExecutor(1) as threads:
        with open_sync(hang) as box:
            call = threads.submit(box.session("s").call, "hang")
            assert started.wait(60)
        with pytest.raises(ClosedError, match="is closed"):
            call.result(60)
    assert ended.is_set()
    assert own_threads() == []


def test_a_tool_that_raises_keyboard_interrupt_reaches_its_caller_and_closes_the_toolbox() -> None:
    async def interrupt() -> str:
        """Raise what is meant for the whole program."""
        raise KeyboardInterrupt

    with open_sync(interrupt) as box:
        session = box.session("s")
        with pytest.raises(KeyboardInterrupt):
            session.call("interrupt")
        with pytest.raises(ClosedError):
            box.session("s")
    assert own_threads() == []


# Processes


def test_it_runs_the_tools_of_a_real_mcp_server(tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    server = {"command": sys.executable, "args": ["-m", "mcp_server_time"]}
    config.write_text(json.dumps({"mcpServers": {"time": server}}), encoding="utf-8")
    with open_sync(config) as box:
        box.wait_until_ready()
        names = [t.name for t in box.catalog]
        (name,) = (n for n in names if "current_time" in n)
        record = box.session("s").step().call(name, {"timezone": "Europe/Oslo"})
        assert record.outcome == "ok"
        assert "Europe/Oslo" in record.result.text
    assert own_threads() == []


# Two threads print: each line is one write, so that none is split.
INTERRUPTED = """
import asyncio, os
from toolscout import Toolbox, tool

def say(line):
    os.write(1, f"{line}\\n".encode())

@tool
async def hang() -> str:
    "Wait for ever."
    say("started")
    try:
        await asyncio.Event().wait()
    finally:
        say("cancelled")

@tool
async def greet() -> str:
    "Say hello."
    return "hello again"

with Toolbox([hang, greet], store="memory").sync() as box:
    session = box.session("s")
    try:
        session.call("hang")
    except KeyboardInterrupt:
        say("interrupted")
    say(session.call("greet").text)
say("left")
"""


def run_script(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )


@pytest.mark.skipif(os.name == "nt", reason="signals are sent in another way there")
def test_ctrl_c_cancels_the_waiting_call_and_the_toolbox_stays_usable() -> None:
    with run_script(INTERRUPTED) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert sorted(out.split("\n")[:2]) == ["cancelled", "interrupted"]
    assert out.split("\n")[2:] == ["hello again", "left", ""]
    assert err == ""


NEVER_LEFT = """
import asyncio, sys, threading
from toolscout import Toolbox, tool

started = threading.Event()

@tool
async def hang() -> str:
    "Wait for ever."
    started.set()
    await asyncio.Event().wait()

box = Toolbox([hang], store=sys.argv[1]).sync().__enter__()
session = box.session("s")
session.view("anthropic")
threading.Thread(target=session.call, args=["hang"], daemon=True).start()
started.wait()
print("end of the program", flush=True)
"""


def test_a_program_that_never_leaves_it_still_ends_and_saves(file: Path) -> None:
    with run_script(NEVER_LEFT, str(file)) as process:
        out, _ = process.communicate(timeout=60)
    assert out == "end of the program\n"
    assert process.returncode == 0
    store = SqliteStore(file)
    try:
        assert [record.key for record in store.list()] == ["s"]
    finally:
        store.close()


# The twins have the same methods


def public_members(cls: type) -> dict[str, Any]:
    found = {name: vars(cls)[name] for name in vars(cls) if not name.startswith("_")}
    return {name: member for name, member in found.items() if name != "sync"}


@pytest.mark.parametrize(
    ("original", "twin"), [(Toolbox, SyncToolbox), (Session, SyncSession), (Step, SyncStep)]
)
def test_a_twin_has_every_public_method_with_the_same_parameters(
    original: type, twin: type
) -> None:
    expected, there = public_members(original), public_members(twin)
    if original is Step:
        expected["view"] = there["view"]  # an attribute of the step
    assert {*expected} == {*there}
    for name, member in expected.items():
        if isinstance(member, property):
            assert isinstance(there[name], property), name
            continue
        ours = [(p.name, p.kind, p.default) for p in inspect.signature(member).parameters.values()]
        twins = inspect.signature(there[name]).parameters.values()
        assert ours == [(p.name, p.kind, p.default) for p in twins], name
