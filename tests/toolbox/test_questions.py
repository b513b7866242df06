"""Questions that MCP servers ask the user during a call of the library."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.upstreams.processes import free_port, running

from toolscout.catalog.questions import Answer
from toolscout.config import Config
from toolscout.events import AnswerNeededEvent, Event, ToolCallEvent
from toolscout.models.messages import Call
from toolscout.toolbox.call_record import CallRecord, PendingQuestion
from toolscout.toolbox.toolbox import Toolbox

QUESTIONER = str(Path(__file__).parent.parent / "upstreams" / "questioner.py")
ANN = {"action": "accept", "content": {"name": "Ann"}}
ACCEPTED = ["", ANN]
NO_LONGER_WAITING = "The call that this answers is no longer waiting. Call the tool again."


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The server over HTTP; one process for all tests."""
    port = free_port()
    with running(QUESTIONER, "http", str(port)):
        yield f"http://127.0.0.1:{port}/mcp"


class Desk:
    """Toolboxes over one server that asks, and the events of them."""

    def __init__(self, folder: Path, server: dict[str, Any]) -> None:
        self.path = folder / "mcp.json"
        self.path.write_text(json.dumps({"mcpServers": {"desk": server}}))
        self.events: list[Event] = []
        self.ended = asyncio.Event()

    def hear(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, ToolCallEvent):
            self.ended.set()

    def open(self, **options: Any) -> AbstractAsyncContextManager[Toolbox]:
        settings = {"embedder": "none", "start_timeout_seconds": 60, **options.pop("config", {})}
        return Toolbox(
            self.path,
            store="memory",
            config=Config.read(**settings),
            profile="everything",
            sink=self.hear,
            **options,
        )


SERVERS = ["stdio handshake", "stdio stateless", "http handshake", "http stateless"]


@pytest.fixture(params=SERVERS)
def desk(request: pytest.FixtureRequest, tmp_path: Path, url: str) -> Desk:
    """A server of each generation, over each transport."""
    return make_desk(tmp_path, url, request.param)


def make_desk(folder: Path, url: str, kind: str, **options: Any) -> Desk:
    transport, protocol = kind.split()
    how = {"url": url} if transport == "http" else {"command": sys.executable, "args": [QUESTIONER]}
    return Desk(folder, {**how, "protocol": protocol, **options})


def question_of(record: CallRecord) -> PendingQuestion:
    assert isinstance(record.needs, PendingQuestion), record.result.text
    return record.needs


def heard(record: CallRecord) -> Any:
    assert not record.result.is_error, record.result.text
    return json.loads(record.result.text)


async def test_a_call_that_asks_waits_for_the_reply(desk: Desk) -> None:
    async with asyncio.timeout(60), desk.open() as box:
        session = await box.session("s", principal="ann")
        step = session.step("plain")
        record = await step.call("desk__register", {}, id="call-1")
        question = question_of(record)
        assert (question.message, question.tool) == ("Who are you?", "desk__register")
        assert (question.server, question.session, question.principal) == ("desk", "s", "ann")
        assert [*question.schema["properties"]] == ["name"]
        assert (record.call.id, record.result.code, record.is_run) == (
            "call-1",
            "answer_needed",
            True,
        )
        assert "Do not call it again" in record.result.text
        assert await step.finish() == (record,)
        assert session.questions() == (question,)
        after = await session.reply(question, {"name": "Ann"})
        assert heard(after) == ACCEPTED
        assert (after.needs, after.tool, after.id) == (None, "desk__register", record.id)
        assert session.questions() == ()


async def test_an_event_says_that_a_call_waits_for_an_answer(desk: Desk) -> None:
    async with asyncio.timeout(60), desk.open() as box:
        session = await box.session("s", principal="ann")
        question = question_of(await session.step("plain").call("desk__register"))
        after = await session.reply(question.id, {"name": "Ann"})
        asked = next(e for e in desk.events if isinstance(e, AnswerNeededEvent))
        ended = next(e for e in desk.events if isinstance(e, ToolCallEvent))
        assert asked.question == question.id
        assert (asked.session, asked.principal, asked.tool) == ("s", "ann", "desk__register")
        assert asked.expires == question.expires > question.created
        assert asked.parent == ended.id == after.id


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_the_server_hears_that_the_user_said_no(desk: Desk, action: Any) -> None:
    async with asyncio.timeout(60), desk.open() as box:
        session = await box.session("s")
        question = question_of(await session.step("plain").call("desk__register"))
        after = await session.reply(question, {"name": "ignored"}, action=action)
        assert heard(after) == ["", {"action": action, "content": None}]


async def test_a_call_may_ask_again_after_a_reply(desk: Desk) -> None:
    async with asyncio.timeout(60), desk.open() as box:
        session = await box.session("s")
        first = question_of(await session.step("plain").call("desk__book"))
        second = question_of(await session.reply(first, {"name": "Ann"}))
        assert (second.message, second.tool) == ("How many seats?", "desk__book")
        assert first.id != second.id
        after = await session.reply(second, {"seats": "2"})  # text, as a form sends it
        assert heard(after) == [ANN, {"action": "accept", "content": {"seats": 2}}]


async def test_calls_that_ask_in_parallel_each_get_their_own_answer(desk: Desk) -> None:
    async with asyncio.timeout(60), desk.open() as box:
        session = await box.session("s")
        # The first question of a server on a pipe makes its calls run one at a time.
        question = question_of(await session.step("plain").call("desk__register"))
        await session.reply(question, {"name": "Ann"})
        calls = [
            Call(label, "desk__register", json.dumps({"label": label})) for label in ("a", "b", "c")
        ]
        records = await session.step("plain").run(calls)
        questions = {record.call.id: question_of(record) for record in records}
        assert {q.id for q in session.questions()} == {q.id for q in questions.values()}
        for label in ("b", "c", "a"):
            after = await session.reply(questions[label], {"name": f"Ann {label}"})
            content = {"name": f"Ann {label}"}
            assert heard(after) == [label, {"action": "accept", "content": content}]


async def test_other_calls_of_a_server_run_while_one_waits(desk: Desk) -> None:
    async with asyncio.timeout(60), desk.open() as box:
        session = await box.session("s")
        question = question_of(await session.step("plain").call("desk__register"))
        assert not (await session.call("desk__process")).is_error
        assert heard(await session.reply(question, {"name": "Ann"})) == ACCEPTED


async def test_a_question_is_answered_once(desk: Desk) -> None:
    async with asyncio.timeout(60), desk.open() as box:
        session = await box.session("s")
        question = question_of(await session.step("plain").call("desk__register"))
        replies = [session.reply(question, {"name": name}) for name in ("Ann", "Bob")]
        first, second = await asyncio.gather(*replies)
        assert heard(first) == ACCEPTED
        assert (second.result.text, second.result.code) == (NO_LONGER_WAITING, "expired")
        assert second.needs is None
        assert (await session.reply("no such id")).result.text == NO_LONGER_WAITING


async def test_content_that_does_not_fit_leaves_the_question_open(desk: Desk) -> None:
    async with asyncio.timeout(60), desk.open() as box:
        session = await box.session("s")
        question = question_of(await session.step("plain").call("desk__register"))
        wrong = await session.reply(question, {"nickname": "A"})
        assert wrong.needs == question
        assert wrong.result.code == "invalid_arguments"
        assert "name" in wrong.result.text
        assert heard(await session.reply(question, {"name": "Ann"})) == ACCEPTED


async def test_nobody_but_the_principal_of_the_conversation_can_answer(desk: Desk) -> None:
    async with asyncio.timeout(60), desk.open() as box:
        session = await box.session("s", principal="ann")
        question = question_of(await session.step("plain").call("desk__register"))
        for other in (await box.session("s", principal="bob"), await box.session("t")):
            assert other.questions() == ()
            assert (await other.reply(question, {"name": "B"})).result.text == NO_LONGER_WAITING
        again = await box.session("s", principal="ann")
        assert heard(await again.reply(question, {"name": "Ann"})) == ACCEPTED


async def test_a_question_expires(desk: Desk) -> None:
    async with asyncio.timeout(60), desk.open(config={"question_ttl_minutes": 0.001}) as box:
        session = await box.session("s")
        question = question_of(await session.step("plain").call("desk__register"))
        await desk.ended.wait()
        assert (await session.reply(question, {"name": "Ann"})).result.text == NO_LONGER_WAITING
        assert [e.code for e in desk.events if isinstance(e, ToolCallEvent)] == ["cancelled"]
        assert not (await session.call("desk__process")).is_error


@pytest.mark.parametrize("kind", ["http handshake", "http stateless"])
async def test_a_forgotten_conversation_ends_its_waiting_calls(
    tmp_path: Path, url: str, kind: str
) -> None:
    desk = make_desk(tmp_path, url, kind)
    async with asyncio.timeout(60), desk.open() as box:
        session, second, other = [await box.session(name) for name in ("a", "b", "c")]
        questions = [
            question_of(await each.step("plain").call("desk__register"))
            for each in (session, second, other)
        ]
        await session.forget()
        await box.forget("b")
        assert (await session.reply(questions[0])).result.text == NO_LONGER_WAITING
        assert (await second.reply(questions[1])).result.text == NO_LONGER_WAITING
        assert heard(await other.reply(questions[2], {"name": "Ann"})) == ACCEPTED


async def test_a_question_on_a_pipe_never_reaches_another_conversation(
    tmp_path: Path, url: str
) -> None:
    desk = make_desk(tmp_path, url, "stdio handshake")
    async with asyncio.timeout(60), desk.open() as box:
        session, other = await box.session("a"), await box.session("b")
        question = question_of(await session.step("plain").call("desk__register"))
        refused = await other.step("plain").call("desk__register")
        assert refused.needs is None
        assert "several calls are running" in refused.result.text
        assert session.questions() == (question,)
        assert heard(await session.reply(question, {"name": "Ann"})) == ACCEPTED


async def test_closing_the_toolbox_ends_its_waiting_calls(desk: Desk) -> None:
    async with asyncio.timeout(60):
        async with desk.open() as box:
            session = await box.session("s")
            question = question_of(await session.step("plain").call("desk__register"))
        assert [e.code for e in desk.events if isinstance(e, ToolCallEvent)] == ["cancelled"]
        assert (await session.reply(question)).result.text == NO_LONGER_WAITING
    # A question of a process before this one is as unknown.
    async with asyncio.timeout(60), desk.open() as box:
        after = await (await box.session("s")).reply(question, {"name": "Ann"})
        assert after.result.text == NO_LONGER_WAITING


@pytest.mark.parametrize("kind", ["stdio handshake", "stdio stateless"])
async def test_a_server_that_ends_while_its_call_waits_is_reported(
    tmp_path: Path, url: str, kind: str
) -> None:
    desk = make_desk(tmp_path, url, kind)
    async with asyncio.timeout(60), desk.open() as box:
        session = await box.session("s")
        process = int((await session.call("desk__process")).text)
        question = question_of(await session.step("plain").call("desk__register"))
        os.kill(process, signal.SIGKILL)
        after = await session.reply(question, {"name": "Ann"})
        assert after.result.is_error
        assert after.needs is None
        assert "desk" in after.result.text


LIMITS = [
    ("toolbox", {"call_timeout_seconds": 1.5}, {}),
    ("server", {}, {"call_timeout_seconds": 1.5}),
]


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize(("_", "config", "server"), LIMITS, ids=[name for name, _, _ in LIMITS])
async def test_the_time_a_person_takes_is_not_the_time_of_the_tool(
    tmp_path: Path, url: str, kind: str, _: str, config: dict[str, Any], server: dict[str, Any]
) -> None:
    desk = make_desk(tmp_path, url, kind, **server)
    async with asyncio.timeout(60), desk.open(config=config) as box:
        session = await box.session("s")
        step = session.step("plain")
        done = question_of(await step.call("desk__register"))
        stalled = question_of(await step.call("desk__stall"))
        # A call that runs into the limit shows that more time than that has passed.
        assert "1.5 seconds" in (await session.call("desk__wait")).text
        after = await session.reply(done, {"name": "Ann"})
        assert heard(after) == ACCEPTED
        ended = next(e for e in desk.events if isinstance(e, ToolCallEvent) and e.id == after.id)
        assert ended.took_ms < 1_500 < after.took_ms
        # After the reply, the limit counts again.
        assert "1.5 seconds" in (await session.reply(stalled, {"name": "Ann"})).result.text


async def test_without_anybody_to_ask_the_server_hears_so_at_once(desk: Desk) -> None:
    async with asyncio.timeout(60), desk.open() as box:
        session = await box.session("s")
        result = await session.call("desk__register")
        assert result.is_error
        assert "cannot be asked" in result.text
        record = await session.step("plain", approvals="ask").call("desk__register")
        assert record.needs is None
        assert "cannot be asked" in record.result.text


async def test_an_asker_answers_while_the_call_runs(desk: Desk) -> None:
    asked: list[str] = []

    async def asker(question: PendingQuestion) -> Answer | None:
        asked.append(question.message)
        return Answer(content={"name": "Ann"})

    async with asyncio.timeout(60), desk.open(asker=asker) as box:
        session = await box.session("s")
        assert json.loads((await session.call("desk__register")).text) == ACCEPTED
        assert asked == ["Who are you?"]


@pytest.mark.parametrize("failure", [RuntimeError("no screen"), None, "a text"])
async def test_an_asker_that_fails_is_nobody_to_ask(tmp_path: Path, url: str, failure: Any) -> None:
    def asker(_: PendingQuestion) -> Any:
        if isinstance(failure, Exception):
            raise failure
        return failure

    desk = make_desk(tmp_path, url, "http handshake")
    async with asyncio.timeout(60), desk.open() as box:
        session = await box.session("s", asker=asker)
        assert (await session.call("desk__register")).is_error
