"""A question of a tool suspends the program that called it; the answer continues it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from toolscout.config import Config
from toolscout.toolbox.call_record import CallRecord, PendingQuestion
from toolscout.toolbox.session import Session
from toolscout.toolbox.toolbox import Toolbox

QUESTIONER = str(Path(__file__).parent.parent / "upstreams" / "questioner.py")


@pytest.fixture(params=["handshake", "stateless"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_servers(tmp_path, request.param)


def write_servers(folder: Path, protocol: str) -> Path:
    server = {"command": sys.executable, "args": [QUESTIONER], "protocol": protocol}
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"desk": server}}))
    return path


def open_box(servers: Path) -> Toolbox:
    config = Config.read(embedder="none", home=servers.parent, start_timeout_seconds=60)
    return Toolbox(servers, profile="code", store=servers.parent / "state.db", config=config)


async def start(session: Session, code: str) -> CallRecord:
    step = session.step()
    record = await step.call("run_code", {"code": code})
    await step.finish()
    return record


def question_of(record: CallRecord) -> PendingQuestion:
    assert isinstance(record.needs, PendingQuestion), record.result.text
    return record.needs


async def test_the_answer_continues_the_program(servers: Path) -> None:
    async with asyncio.timeout(60), open_box(servers) as box:
        session = await box.session("s", principal="ann")
        record = await start(session, "x = await desk.book()\n[len(x), x[1]['content']['seats']]")
        first = question_of(record)
        assert (first.message, first.tool) == ("Who are you?", "desk__book")
        assert "desk__book needs the user" in record.result.text
        second = question_of(await session.reply(first, {"name": "Ann"}))
        assert second.message == "How many seats?"
        done = await session.reply(second, {"seats": 3})
        assert (done.tool, done.result.value, done.needs) == ("run_code", [2, 3], None)


async def test_two_questions_of_one_program_are_answered_in_any_order(tmp_path: Path) -> None:
    # In a handshake session a server cannot say which of several calls asks.
    servers = write_servers(tmp_path, "stateless")
    code = (
        "import asyncio\nx = await asyncio.gather(desk.register(label='a'), "
        "desk.register(label='b'))\n[y[1]['content']['name'] for y in x]"
    )
    async with asyncio.timeout(60), open_box(servers) as box:
        session = await box.session("s", principal="ann")
        await start(session, code)
        first, second = session.questions()
        waiting = await session.reply(second, {"name": "Bob"})
        assert question_of(waiting).id == first.id
        done = await session.reply(first, {"name": "Ann"})
        assert sorted(done.result.value) == ["Ann", "Bob"]


async def test_an_answer_that_does_not_fit_leaves_the_program_waiting(servers: Path) -> None:
    async with asyncio.timeout(60), open_box(servers) as box:
        session = await box.session("s", principal="ann")
        question = question_of(await start(session, "(await desk.register())[1]['action']"))
        wrong = await session.reply(question, {"name": ["Ann"]})
        assert "does not fit" in wrong.result.text
        assert (await session.reply(question, {"name": "Ann"})).result.text == "accept"


async def test_after_a_restart_the_program_continues_with_an_error_for_that_call(
    servers: Path,
) -> None:
    code = (
        "n = len(search('register'))\ntry:\n    x: Any = await desk.register()\n"
        "except RuntimeError as e:\n    x = str(e)\n[n, x]"
    )
    async with asyncio.timeout(60), open_box(servers) as box:
        session = await box.session("s", principal="ann")
        question = question_of(await start(session, code.replace(": Any", "")))
    async with asyncio.timeout(60), open_box(servers) as box:
        session = await box.session("s", principal="ann")
        stranger = await box.session("s", principal="eve")
        assert (await stranger.reply(question, {"name": "Eve"})).tool == ""
        done = await session.reply(question, {"name": "Ann"})
        value: Any = done.result.value
        assert done.tool == "run_code"
        assert value[0] > 0
        assert "may or may not have had an effect" in value[1]
        again = await session.reply(question, {"name": "Ann"})
        assert "no longer waiting" in again.result.text
