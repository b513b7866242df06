"""A program that needs a person waits in the store, and continues where it was, at most once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from toolscout.config import Config
from toolscout.sources.functions import tool
from toolscout.toolbox.call_record import CallRecord
from toolscout.toolbox.pending_approvals import PendingApproval
from toolscout.toolbox.session import Session
from toolscout.toolbox.toolbox import Toolbox

QUESTIONER = str(Path(__file__).parent.parent / "upstreams" / "questioner.py")
ran: list[str] = []


@tool
def count(topic: str) -> int:
    """Count the items of a topic."""
    ran.append(f"count {topic}")
    return len(topic)


@tool(risk="destructive")
def erase(topic: str) -> str:
    """Erase a topic."""
    ran.append(f"erase {topic}")
    return f"{topic} erased"


TWO_STEPS = """\
print('first')
n = await tools.count(topic='mail')
x = await tools.erase(topic='mail')
print('last')
[n, x]
"""


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def open_box(path: Path, **options: Any) -> Toolbox:
    config = Config.read(embedder="none", home=path)
    return Toolbox(
        [count, erase], profile="code", store=path / "state.db", config=config, **options
    )


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with open_box(tmp_path) as box:
        yield await box.session("s", principal="ann")


async def start(session: Session, code: str) -> CallRecord:
    step = session.step()
    record = await step.call("run_code", {"code": code})
    await step.finish()
    return record


def need_of(record: CallRecord) -> str:
    assert isinstance(record.needs, PendingApproval), record.result.text
    return record.needs.id


async def test_an_approval_continues_the_program_and_nothing_runs_twice(session: Session) -> None:
    record = await start(session, TWO_STEPS)
    assert record.result.code == "approval_needed"
    assert "erase needs the user" in record.result.text
    assert 'count({"topic":"mail"}) -> 4' in record.result.text
    assert ran == ["count mail"]

    done = await session.approve(need_of(record))
    assert (done.tool, done.result.text) == ("run_code", 'first\nlast\n[4, "mail erased"]')
    assert ran == ["count mail", "erase mail"]

    again = await session.approve(need_of(record))
    assert again.result.is_error
    assert ran == ["count mail", "erase mail"]


async def test_it_continues_after_a_restart(tmp_path: Path) -> None:
    async with open_box(tmp_path) as box:
        need = need_of(await start(await box.session("s", principal="ann"), TWO_STEPS))
    async with open_box(tmp_path) as box:
        session = await box.session("s", principal="ann")
        assert [approval.id for approval in session.approvals()] == [need]
        done = await session.approve(need)
    assert done.result.text == 'first\nlast\n[4, "mail erased"]'
    assert ran == ["count mail", "erase mail"]


async def test_a_refusal_is_an_error_that_the_program_can_handle(session: Session) -> None:
    code = "try:\n    await tools.erase(topic='mail')\nexcept RuntimeError as e:\n    x = str(e)\nx"
    record = await start(session, code)
    done = await session.refuse(need_of(record), reason="keep the mail")
    assert "keep the mail" in done.result.text
    assert not done.result.is_error
    assert ran == []


async def test_a_program_waits_for_several_approvals_in_any_order(session: Session) -> None:
    code = (
        "import asyncio\nawait asyncio.gather(*[tools.erase(topic=t) for t in ('a', 'b', 'c')], "
        "tools.count(topic='four'))"
    )
    record = await start(session, code)
    assert ran == ["count four"]
    needs = {a.arguments["topic"]: a.id for a in session.approvals()}
    waiting = await session.approve(needs["b"])
    assert need_of(waiting) in (needs["a"], needs["c"])
    assert need_of(await session.approve(needs["c"])) == needs["a"]
    done = await session.approve(needs["a"])
    assert done.result.value == ["a erased", "b erased", "c erased", 4]
    assert ran == ["count four", "erase b", "erase c", "erase a"]
    assert record.needs is not None


async def test_a_later_step_of_the_program_may_need_another_approval(session: Session) -> None:
    record = await start(session, "[await tools.erase(topic=t) for t in ('a', 'b')]")
    second = await session.approve(need_of(record))
    assert need_of(second) != need_of(record)
    done = await session.approve(need_of(second))
    assert done.result.value == ["a erased", "b erased"]


async def test_another_principal_cannot_continue_the_program(tmp_path: Path) -> None:
    async with open_box(tmp_path) as box:
        need = need_of(await start(await box.session("s", principal="ann"), TWO_STEPS))
        stranger = await box.session("s", principal="eve")
        assert (await stranger.approve(need)).result.is_error
        assert (await stranger.refuse(need)).result.is_error
        assert ran == ["count mail"]
        owner = await box.session("s", principal="ann")
        assert not (await owner.approve(need)).result.is_error


async def test_with_an_approver_the_program_asks_while_it_runs(tmp_path: Path) -> None:
    async with open_box(tmp_path, approver=lambda _: True) as box:
        session = await box.session("s")
        result = await session.call("run_code", {"code": TWO_STEPS})
    assert result.text == 'first\nlast\n[4, "mail erased"]'


async def test_too_much_data_to_wait_with_is_an_error_that_says_what_to_do(
    session: Session,
) -> None:
    record = await start(
        session,
        "x = ['y' * 1000 + str(n) for n in range(3000)]\nawait tools.erase(topic='a')\nlen(x)",
    )
    assert "too much data to wait" in record.result.text
    assert ran == []


async def test_a_damaged_state_starts_nothing(tmp_path: Path) -> None:
    async with open_box(tmp_path) as box:
        session = await box.session("s", principal="ann")
        need = need_of(await start(session, TWO_STEPS))
        await session.update_section("feature:code", lambda _: "[{]")
        done = await session.approve(need)
    # The approved call ran, as it was approved; there is no program to continue.
    assert done.tool == "erase"
    assert ran == ["count mail", "erase mail"]


KILLED = '''
import asyncio, json, sys
from toolscout import Toolbox, tool
from toolscout.config import Config

@tool
def count(topic: str) -> int:
    """Count."""
    with open(sys.argv[2], "a") as file:
        file.write("count\\n")
    return 4

@tool(risk="destructive")
def erase(topic: str) -> str:
    """Erase."""
    with open(sys.argv[2], "a") as file:
        file.write("erase\\n")
    return "erased"

async def main():
    config = Config.read(embedder="none", profile="code")
    async with Toolbox([count, erase], store=sys.argv[1], config=config) as box:
        session = await box.session("s", principal="ann")
        if sys.argv[3] == "start":
            code = "n = await tools.count(topic='mail')\\n[n, await tools.erase(topic='mail')]"
            record = await session.step().call("run_code", {"code": code})
            print(record.needs.id, flush=True)
            await asyncio.Event().wait()
        print(json.dumps((await session.approve(sys.argv[3])).result.text), flush=True)

asyncio.run(main())
'''


def test_it_continues_in_another_process_after_kill_9(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "state.db"), str(tmp_path / "effects")]
    with subprocess.Popen([*command, "start"], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        need = first.stdout.readline().strip()
        os.kill(first.pid, signal.SIGKILL)
    done = subprocess.run([*command, need], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == '[4, "erased"]'
    assert (tmp_path / "effects").read_text() == "count\nerase\n"
