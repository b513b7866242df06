"""Approvals that are given later: by any process, for exactly that call, at most once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from toolscout.catalog.tool import Tool
from toolscout.errors import StoreError
from toolscout.events import ApprovalEvent, ApprovalNeededEvent, Event
from toolscout.sources.functions import tool
from toolscout.store.sqlite import SqliteOptions, SqliteStore
from toolscout.toolbox.call_record import CallRecord
from toolscout.toolbox.pending_approvals import PendingApproval
from toolscout.toolbox.permissions import ApprovalVerdict
from toolscout.toolbox.session import Session
from toolscout.toolbox.toolbox import Toolbox

ROUNDS = 20

# Another process with the same store and the same tool. It does what its lines of input say.
PROGRAM = '''
import asyncio, json, sys
from toolscout import Toolbox, tool

store, effects = sys.argv[1:]

@tool(risk="destructive")
async def delete_account(name: str, hangs: bool = False) -> str:
    """Delete an account for good."""
    with open(effects, "a") as file:
        file.write(name + "\\n")
    if hangs:
        print("running", flush=True)
        await asyncio.Event().wait()
    return f"{name} is gone"

async def main():
    async with Toolbox([delete_account], store=store) as box:
        session = await box.session("s")
        while line := await asyncio.to_thread(sys.stdin.readline):
            command, *rest = json.loads(line)
            if command == "ask":
                record = await session.step().call("delete_account", rest[0])
                print(json.dumps(record.needs and record.needs.id), flush=True)
            elif command == "forget":
                await session.forget()
                print("null", flush=True)
            else:
                record = await getattr(session, command)(*rest)
                print(json.dumps([record.outcome, record.result.text]), flush=True)

asyncio.run(main())
'''


class Other:
    """Another process, driven line by line."""

    def __init__(self, store: Path, effects: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(store), str(effects)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )

    def send(self, *command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def receive(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ask(self, *command: Any) -> Any:
        self.send(*command)
        return json.loads(self.receive())

    def leave(self) -> None:
        self.process.communicate(timeout=60)


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    """What the tool really did, one line for each run, whichever process ran it."""
    path = tmp_path / "effects.txt"
    path.touch()
    return path


def runs(effects: Path) -> list[str]:
    return effects.read_text().split()


@pytest.fixture
def start(file: Path, effects: Path) -> Iterator[Callable[[], Other]]:
    """Starts other processes on the same store."""
    with ExitStack() as stack:

        def start_process() -> Other:
            other = Other(file, effects)
            stack.callback(other.leave)
            return other

        yield start_process


def make_tool(effects: Path, *, description: str = "Delete an account for good.") -> Any:
    @tool(risk="destructive", description=description)
    async def delete_account(name: str, hangs: bool = False) -> str:
        with effects.open("a") as lines:
            lines.write(name + "\n")
        return f"{name} is gone"

    return delete_account


Open = Callable[..., Any]


@pytest.fixture
async def open_session(file: Path, effects: Path) -> AsyncIterator[Open]:
    """Opens the session of the test, each time in a toolbox of its own on the same file."""
    async with AsyncExitStack() as stack:

        async def build(*sources: Any, **options: Any) -> Session:
            whose = {k: options.pop(k) for k in ("principal", "allow") if k in options}
            options.setdefault("store", file)
            box = Toolbox(sources or [make_tool(effects)], **options)
            return await (await stack.enter_async_context(box)).session("s", **whose)

        yield build


async def ask(session: Session, name: str = "bob") -> PendingApproval:
    record = await session.step().call("delete_account", {"name": name})
    assert record.needs is not None
    return record.needs


def assert_refused(record: CallRecord, *words: str, code: str = "refused") -> None:
    assert (record.outcome, record.is_run) == (code, False)
    for word in words:
        assert word in record.result.text


# Asking


async def test_a_call_that_needs_approval_comes_back_and_nothing_ran(
    open_session: Open, effects: Path
) -> None:
    clock = 1_000.0
    session = await open_session(clock=lambda: clock, principal="ann")
    record = await session.step().call("delete_account", {"name": "bob"})
    needs = record.needs
    assert needs is not None
    assert (record.outcome, record.is_run) == ("approval_needed", False)
    assert (needs.tool, needs.arguments) == ("delete_account", {"name": "bob"})
    assert (needs.session, needs.principal) == ("s", "ann")
    assert (needs.created, needs.expires) == (1_000.0, 1_000.0 + 24 * 3_600)
    assert "destructive" in needs.why
    assert session.approvals() == (needs,)
    assert runs(effects) == []


async def test_an_approver_is_not_asked_by_a_step_that_returns_approvals(
    open_session: Open, effects: Path
) -> None:
    async def approver(_: object) -> bool:
        raise AssertionError("asked")

    session = await open_session(approver=approver)
    await ask(session)
    assert runs(effects) == []


async def test_events_tell_what_was_needed_and_what_was_decided(open_session: Open) -> None:
    events: list[Event] = []
    session = await open_session(sink=events.append)
    first, second = await ask(session, "bob"), await ask(session, "eve")
    await session.approve(first)
    await session.refuse(second)
    needed = [e.approval for e in events if isinstance(e, ApprovalNeededEvent)]
    decided = [(e.approval, e.approved) for e in events if isinstance(e, ApprovalEvent)]
    assert needed == [first.id, second.id]
    assert decided == [(first.id, True), (second.id, False)]


# Another process


async def test_another_process_approves_after_the_first_one_is_gone(
    start: Callable[[], Other], effects: Path
) -> None:
    first = start()
    key = first.ask("ask", {"name": "bob"})
    first.leave()
    assert runs(effects) == []
    second = start()
    assert second.ask("approve", key) == ["ok", "bob is gone"]
    outcome, text = second.ask("approve", key)
    assert outcome == "refused"
    assert "used already" in text
    assert runs(effects) == ["bob"]


async def test_an_open_session_sees_what_another_process_asked_for(
    open_session: Open, start: Callable[[], Other], effects: Path
) -> None:
    session = await open_session()
    session.view("anthropic")  # a change that is not saved yet
    key = start().ask("ask", {"name": "bob"})
    assert (await session.approve(key)).result.text == "bob is gone"
    assert runs(effects) == ["bob"]


async def test_two_processes_that_approve_at_the_same_moment_run_the_tool_once(
    open_session: Open, start: Callable[[], Other], effects: Path
) -> None:
    session, both = await open_session(), (start(), start())
    for number in range(ROUNDS):
        needs = await ask(session, f"account-{number}")
        for other in both:
            other.send("approve", needs.id)
        outcomes = sorted(json.loads(other.receive())[0] for other in both)
        assert outcomes == ["ok", "refused"]
    assert runs(effects) == [f"account-{number}" for number in range(ROUNDS)]


async def test_approving_and_refusing_at_the_same_moment_has_one_winner(
    open_session: Open, start: Callable[[], Other], effects: Path
) -> None:
    session, approving, refusing = await open_session(), start(), start()
    ran = 0
    for number in range(ROUNDS):
        needs = await ask(session, f"account-{number}")
        approving.send("approve", needs.id)
        refusing.send("refuse", needs.id)
        (outcome, _), (_, text) = (json.loads(o.receive()) for o in (approving, refusing))
        ran += outcome == "ok"
        assert ("was given and used already" in text) is (outcome == "ok")
    assert len(runs(effects)) == ran


async def test_tasks_of_one_process_that_approve_at_once_run_the_tool_once(
    open_session: Open, effects: Path
) -> None:
    one, two = await open_session(), await open_session()
    for number in range(ROUNDS):
        needs = await ask(one, str(number))
        sessions = (one, two, one, two)
        records = await asyncio.gather(*(session.approve(needs) for session in sessions))
        assert sorted(r.outcome for r in records) == ["ok", "refused", "refused", "refused"]
    assert runs(effects) == [str(number) for number in range(ROUNDS)]


@pytest.mark.skipif(os.name == "nt", reason="processes are killed in another way there")
async def test_a_process_that_is_killed_while_the_tool_runs_leaves_the_approval_used(
    open_session: Open, start: Callable[[], Other], effects: Path
) -> None:
    other = start()
    key = other.ask("ask", {"name": "bob", "hangs": True})
    other.send("approve", key)
    assert other.receive() == "running\n"
    other.process.send_signal(signal.SIGKILL)
    other.process.wait(60)
    session = await open_session()
    assert session.approvals() == ()
    assert_refused(await session.approve(key), "used already")
    assert runs(effects) == ["bob"]


# Decisions that do not hold


async def test_a_refused_call_never_runs_and_the_model_reads_why(
    open_session: Open, effects: Path
) -> None:
    session = await open_session()
    needs = await ask(session)
    assert_refused(await session.refuse(needs.id, reason="Bob is a customer"), "Bob is a customer")
    assert_refused(await session.approve(needs.id), "was refused already")
    assert_refused(await session.refuse(needs.id), "was refused already")
    assert runs(effects) == []


@pytest.mark.parametrize("key", ["", "no-such-id", "' OR 1=1 --", "x" * 10_000])
async def test_an_unknown_id_runs_nothing(open_session: Open, effects: Path, key: str) -> None:
    session = await open_session()
    await ask(session)
    assert_refused(await session.approve(key), "There is no approval")
    assert_refused(await session.refuse(key), "There is no approval")
    assert len(session.approvals()) == 1
    assert runs(effects) == []


async def test_an_approval_expires(open_session: Open, effects: Path) -> None:
    now = [0.0]
    session = await open_session(clock=lambda: now[0])
    needs = await ask(session)
    now[0] = needs.expires - 0.001
    assert session.approvals() == (needs,)
    now[0] = needs.expires
    assert session.approvals() == ()
    assert_refused(await session.approve(needs), "has expired")
    assert_refused(await session.refuse(needs), "has expired")
    assert runs(effects) == []


async def test_another_principal_cannot_decide_and_learns_nothing(
    open_session: Open, effects: Path
) -> None:
    ann = await open_session(principal="ann")
    needs = await ask(ann)
    for principal in ("eve", ""):
        eve = await open_session(principal=principal)
        assert eve.approvals() == ()
        step = eve.step()
        records = (
            await eve.approve(needs),
            await eve.refuse(needs.id),
            await step.call("delete_account", {"name": "bob"}, approval=needs.id),
        )
        for record in records:
            assert_refused(record, "There is no approval")
        for record in records[:2]:
            assert (record.tool, record.call.name, record.call.arguments) == ("", "", "{}")
            assert "delete_account" not in record.result.text
            assert "bob" not in record.result.text
    assert runs(effects) == []
    assert (await ann.approve(needs)).outcome == "ok"


async def test_an_approval_is_for_exactly_these_arguments(
    open_session: Open, effects: Path
) -> None:
    session = await open_session()
    needs = await ask(session)
    step = session.step()
    other = await step.call("delete_account", {"name": "eve"}, approval=needs.id)
    assert_refused(other, "is for another call")
    same = await step.call("delete_account", {"name": "bob"}, approval=needs.id)
    assert (same.outcome, same.is_run) == ("ok", True)  # the mistake before did not use it up
    again = await step.call("delete_account", {"name": "bob"}, approval=needs.id, id="again")
    assert_refused(again, "used already")
    assert runs(effects) == ["bob"]


async def test_a_definition_that_changed_needs_another_approval(
    open_session: Open, effects: Path
) -> None:
    needs = await ask(await open_session())
    changed = make_tool(effects, description="Delete an account and all its backups.")
    session = await open_session(changed)
    assert_refused(await session.approve(needs), "changed after approval")
    assert runs(effects) == []


async def test_a_tool_that_is_not_allowed_any_more_does_not_run(
    open_session: Open, effects: Path
) -> None:
    def harmless() -> str:
        """Do nothing."""
        return ""

    needs = await ask(await open_session())
    forbidden = await open_session(make_tool(effects), harmless, allow=["harmless"])
    assert_refused(await forbidden.approve(needs), "no longer exists", code="unknown_tool")
    gone = await open_session(harmless)
    assert_refused(await gone.approve(needs), "no longer exists", code="unknown_tool")
    assert runs(effects) == []
    assert (await (await open_session()).approve(needs)).outcome == "ok"  # it was not used up


async def test_a_policy_that_refuses_is_not_overruled_by_an_approval(
    open_session: Open, effects: Path
) -> None:
    def refuse_everything(_: Tool) -> ApprovalVerdict:
        return "refuse"

    needs = await ask(await open_session())
    session = await open_session(approval_policy=refuse_everything)
    assert_refused(await session.approve(needs), "not allowed here")
    assert runs(effects) == []


# Calls that take a detour


async def test_arguments_are_approved_as_they_will_run(open_box: Any) -> None:
    session = await (await open_box()).session("s")
    needs = (await session.step().call("delete_page", {"page": "3"})).needs
    assert needs.arguments == {"page": 3}
    assert (await session.approve(needs)).result.text == "page 3 is gone"


async def test_a_call_made_through_call_tool_is_approved_as_the_tool_itself(open_box: Any) -> None:
    session = await (await open_box()).session("s")
    inner = {"name": "delete_page", "arguments": {"page": 3}}
    record = await session.step().call("call_tool", inner)
    assert record.needs.tool == "delete_page"
    done = await session.approve(record.needs.id)
    assert (done.tool, done.result.text) == ("delete_page", "page 3 is gone")
    again = await session.step().call("call_tool", inner, approval=record.needs.id)
    assert_refused(again, "used already")


# Stores and what they hold


async def test_a_store_that_cannot_be_written_means_that_nothing_runs(
    open_session: Open, file: Path, effects: Path
) -> None:
    with closing(SqliteStore(file, options=SqliteOptions(busy_timeout_seconds=0.05))) as store:
        session = await open_session(store=store)
        needs = await ask(session)
        with closing(sqlite3.connect(file, isolation_level=None)) as blocker:
            blocker.execute("BEGIN IMMEDIATE")
            assert_refused(await session.approve(needs), "is locked", code="store")
            assert_refused(await session.refuse(needs), "is locked", code="store")
            blocker.execute("ROLLBACK")
        assert runs(effects) == []
        assert (await session.approve(needs)).outcome == "ok"
        assert_refused(await session.approve(needs), "used already")
    assert runs(effects) == ["bob"]


async def test_a_store_that_cannot_be_read_means_that_nothing_runs(
    open_session: Open, file: Path, effects: Path
) -> None:
    store = SqliteStore(file)
    session = await open_session(store=store)
    needs = await ask(session)
    store.close()
    assert_refused(await session.approve(needs), "is closed", code="store")
    assert_refused(await session.refuse(needs), "is closed", code="store")
    assert_refused(await session.approve("of-another-process"), "is closed", code="store")
    assert runs(effects) == []


async def test_an_approval_asked_for_while_the_store_failed_can_be_given_when_it_works(
    open_session: Open, file: Path, effects: Path
) -> None:
    with closing(SqliteStore(file, options=SqliteOptions(busy_timeout_seconds=0.05))) as store:
        session = await open_session(store=store)
        with closing(sqlite3.connect(file, isolation_level=None)) as blocker:
            blocker.execute("BEGIN IMMEDIATE")
            needs = await ask(session)
            blocker.execute("ROLLBACK")
        assert (await session.approve(needs)).outcome == "ok"
        assert_refused(await session.approve(needs), "used already")
    assert runs(effects) == ["bob"]


@pytest.mark.parametrize("calls_before", [False, True])
async def test_an_approval_does_not_come_back_with_a_session_that_was_deleted(
    open_session: Open, start: Callable[[], Other], effects: Path, calls_before: bool
) -> None:
    session = await open_session()
    needs = await ask(session)
    session.view("anthropic")  # a change that is not saved yet, so the state here is kept
    other = start()
    assert other.ask("approve", needs.id)[0] == "ok"
    other.ask("forget")
    if calls_before:
        await session.load("delete_account")  # writes the session again
    assert_refused(await session.approve(needs), "There is no approval")
    assert runs(effects) == ["bob"]


async def test_a_version_number_that_is_reached_again_does_not_bring_an_approval_back(
    open_session: Open, start: Callable[[], Other], effects: Path
) -> None:
    session = await open_session()
    needs = await ask(session)
    session.view("anthropic")
    version = session.state.version
    other = start()
    other.ask("approve", needs.id)
    other.ask("forget")
    for number in range(version):  # the new record gets the same version number
        other.ask("ask", {"name": f"x{number}"})
    assert_refused(await session.approve(needs), "There is no approval")
    assert runs(effects) == ["bob"]


ROW = {
    "id": "k",
    "tool": "delete_account",
    "arguments": '{"name":"bob"}',
    "why": "",
    "principal": "",
    "created": 0,
    "expires": 9e12,
    "fingerprint": "f",
    "status": "pending",
}


@pytest.mark.parametrize(
    "section",
    [
        "{broken",
        "null",
        "[]",
        '"text"',
        json.dumps([{"id": "k"}]),
        json.dumps([{**ROW, "status": "approved"}]),
        json.dumps([{**ROW, "arguments": "{broken"}]),
        json.dumps([{**ROW, "arguments": "[1]"}]),
        json.dumps([{**ROW, "arguments": None}]),
        json.dumps([{**ROW, "expires": float("nan")}]),
        "[" * 100_000,
    ],
)
async def test_a_damaged_section_approves_nothing_and_stops_nothing(
    open_session: Open, effects: Path, section: str
) -> None:
    session = await open_session()
    await session.update_section("approvals", lambda _: section)
    assert session.approvals() == ()
    assert_refused(await session.approve("k"))
    assert_refused(await session.refuse("k"))
    assert runs(effects) == []
    assert (await session.approve(await ask(session))).outcome == "ok"


async def test_of_too_many_the_newest_can_be_given(open_session: Open, effects: Path) -> None:
    session = await open_session()
    asked = [await ask(session, str(number)) for number in range(70)]
    assert session.approvals() == tuple(asked[-64:])
    assert_refused(await session.approve(asked[0]), "There is no approval")
    assert (await session.approve(asked[6])).outcome == "ok"
    assert (await session.approve(asked[-1])).outcome == "ok"
    assert runs(effects) == ["6", "69"]


async def test_decisions_that_were_made_do_not_push_out_one_that_waits(open_session: Open) -> None:
    session = await open_session()
    waiting = await ask(session, "bob")
    for number in range(70):
        await session.refuse(await ask(session, str(number)))
    assert session.approvals() == (waiting,)
    assert (await session.approve(waiting)).outcome == "ok"


async def test_a_session_whose_store_fails_at_opening_says_so(file: Path) -> None:
    store = SqliteStore(file)
    store.close()
    async with Toolbox([], store=store) as box:
        with pytest.raises(StoreError, match="is closed"):
            await box.session("s")
