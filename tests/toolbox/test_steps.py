"""A step: one request to a model as a value, with its tools and the calls of its reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from toolscout.catalog.result import Result
from toolscout.config import Config
from toolscout.errors import ConfigError, ToolscoutError
from toolscout.events import ApprovalEvent, Event, ToolRefusedEvent
from toolscout.models.messages import Call
from toolscout.offload.limits import OffloadLimits
from toolscout.offload.result_store import ResultStore
from toolscout.sources.functions import tool
from toolscout.store.log_contract import LogFilter
from toolscout.toolbox.step import StepHooks, StepLimits
from toolscout.toolbox.toolbox import Toolbox


class Suspended(Exception):
    """What a framework raises to suspend its run."""


@tool
async def suspend() -> str:
    """Suspend the run of the framework."""
    raise Suspended("later")


@tool
def suspend_in_thread() -> str:
    """Suspend the run of the framework, from a thread."""
    raise Suspended("later")


@tool
def fail() -> str:
    """Fail."""
    raise RuntimeError("no paper")


@tool
def long_report(words: int = 5_000) -> str:
    """Write a long report."""
    return "word " * words


def counter() -> tuple[list[str], Callable[..., Any]]:
    done: list[str] = []

    @tool
    async def count_up(label: str = "") -> str:
        """Count one more."""
        done.append(label)
        return f"counted {label}"

    return done, count_up


# What a step shows


async def test_a_step_has_the_tools_of_the_view_in_no_providers_format(open_box: Any) -> None:
    session = await (await open_box()).session("s")
    await session.load("send_email")
    step = session.step("anthropic")
    tools = {t.name: t for t in step.tools}
    assert [t["name"] for t in step.view.tools] == [*tools]
    assert tools["tool_search"].role == "discovery"
    assert set(tools["tool_search"].schema["properties"]) == {"query", "limit"}
    assert step.instructions == step.view.instructions
    assert step.instructions


@pytest.mark.parametrize("model", ["anthropic", "openai", "gemini", "plain", "claude-opus-4-5"])
async def test_loaded_pinned_and_deferred_tools_have_their_reason(
    open_box: Any, model: str
) -> None:
    @tool(defer="never")
    def always_there() -> str:
        """Be in view all the time."""
        return "here"

    from tests.toolbox.conftest import OFFICE

    session = await (await open_box(always_there, *OFFICE, profile="cms")).session("s")
    await session.load("send_email")
    roles = {t.tool: t.role for t in session.step(model).tools}
    assert roles["always_there"] == "pinned"
    assert roles["send_email"] == "loaded"
    assert "discovery" in roles.values()
    assert "delete_page" not in roles


async def test_names_are_safe_for_the_provider_and_lead_back_to_the_tool(open_box: Any) -> None:
    @tool(name="files.read/one")
    def read_one(path: str) -> str:
        """Read one file."""
        return f"content of {path}"

    session = await (await open_box(read_one)).session("s")
    step = session.step("openai")
    (shown,) = step.tools
    assert shown.tool == "files.read/one"
    assert shown.name.replace("_", "").replace("-", "").isalnum()
    record = await step.call(shown.name, {"path": "a"})
    assert (record.tool, record.result.text) == ("files.read/one", "content of a")


# What a call returns


async def test_a_call_says_what_was_called_and_what_became_callable(open_box: Any) -> None:
    session = await (await open_box()).session("s")
    step = session.step("plain")
    found = await step.call("tool_search", {"query": "send an email message"})
    assert found.is_discovery
    assert "send_email" in found.enabled
    assert found.found[0] == "send_email"
    again = await step.call("tool_search", {"query": "send an email message"}, id="b")
    assert "send_email" not in again.enabled  # it was callable before
    arguments = {"to": "ann", "subject": "Hi"}
    sent = await step.call("call_tool", {"name": "send_email", "arguments": arguments})
    assert (sent.call.name, sent.tool, sent.is_run) == ("send_email", "send_email", True)
    assert sent.outcome == "ok"
    assert sent.took_ms > 0


async def test_the_full_value_is_there_beside_the_preview(open_box: Any, tmp_path: Any) -> None:
    outputs = ResultStore(tmp_path / "outputs", limits=OffloadLimits(threshold_tokens=100))
    box = await open_box(long_report, offload=outputs)
    record = await (await box.session("s")).step("plain").call("long_report")
    assert record.full.text == "word " * 5_000
    assert len(record.result.text) < 5_000


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("fail", {}, "call"),
        ("no_such_tool", {}, "unknown_tool"),
        ("count_up", {"label": {"a": 1}, "b": 2}, "invalid_arguments"),
        ("count_up", "{not json", "invalid_arguments"),
    ],
)
async def test_a_failing_call_never_raises(
    open_box: Any, name: str, arguments: Any, code: str
) -> None:
    _, count_up = counter()
    session = await (await open_box(fail, count_up)).session("s")
    record = await session.step("plain").call(name, arguments)
    assert record.result.is_error
    assert record.outcome == code
    assert record.is_run is (name == "fail")


@pytest.mark.parametrize("name", ["suspend", "suspend_in_thread"])
async def test_exceptions_that_pass_go_through_untouched(open_box: Any, name: str) -> None:
    session = await (await open_box(suspend, suspend_in_thread)).session("s")
    with pytest.raises(Suspended, match="later"):
        await session.step("plain", passes=[Suspended]).call(name)
    with pytest.raises(Suspended, match="later"):
        await session.step("plain", passes=[Suspended]).run([Call("1", name)])
    record = await session.step("plain").call(name)
    assert "Suspended" in record.result.text


async def test_an_approver_may_suspend_the_run(open_box: Any) -> None:
    async def approver(_: object) -> bool:
        raise Suspended("ask the user")

    session = await (await open_box(approver=approver)).session("s")
    await session.load("delete_page")
    step = session.step("plain", passes=[Suspended], approvals="ask")
    with pytest.raises(Suspended, match="ask the user"):
        await step.call("delete_page", {"page": 1})


# Order, limits, repeats


async def test_discovery_comes_first_even_if_it_was_called_last(open_box: Any) -> None:
    session = await (await open_box(profile="cms")).session("s")
    step = session.step("plain")
    send = step.call("send_email", {"to": "ann", "subject": "Hi"}, id="1")
    find = step.call("tool_search", {"query": "send an email message"}, id="2")
    sent, found = await asyncio.gather(send, find)
    assert "send_email" in found.enabled
    assert sent.outcome == "ok"
    assert [r.call.id for r in await step.finish()] == ["1", "2"]


async def test_other_calls_run_in_parallel_up_to_the_limit(open_box: Any) -> None:
    meeting, most, now = asyncio.Barrier(3), 0, 0

    @tool
    async def meet(label: str) -> str:
        """Wait for two others."""
        nonlocal most, now
        now += 1
        most = max(most, now)
        await meeting.wait()
        now -= 1
        return label

    session = await (await open_box(meet)).session("s")
    step = session.step("plain", limits=StepLimits(parallel=3))
    calls = [Call(str(n), "meet", f'{{"label": "{n}"}}') for n in range(6)]
    assert [r.result.text for r in await step.run(calls)] == list("012345")
    assert most == 3


async def test_calls_beyond_the_limit_are_not_run(open_box: Any) -> None:
    done, count_up = counter()
    session = await (await open_box(count_up)).session("s")
    step = session.step("plain", limits=StepLimits(calls=2))
    records = await step.run([Call(str(n), "count_up") for n in range(3)])
    assert [r.is_run for r in records] == [True, True, False]
    assert "at most 2 calls" in records[2].result.text
    assert len(done) == 2


async def test_arguments_beyond_the_limit_are_not_run(open_box: Any) -> None:
    done, count_up = counter()
    session = await (await open_box(count_up)).session("s")
    step = session.step("plain", limits=StepLimits(argument_chars=50))
    record = await step.call("count_up", {"label": "x" * 100})
    assert (record.outcome, done) == ("invalid_arguments", [])


async def test_a_call_repeated_step_after_step_is_refused(open_box: Any) -> None:
    done, count_up = counter()
    session = await (await open_box(count_up)).session("s")
    outcomes: list[bool] = []
    for _ in range(4):
        step = session.step("plain")
        record = await step.call("count_up", {"label": "a"})
        outcomes.append(record.is_repeat)
        await step.finish()
    assert outcomes == [False, False, False, True]
    assert len(done) == 3
    await session.finish()  # the turn is over, so the user may have asked again
    assert not (await session.step("plain").call("count_up", {"label": "a"})).is_repeat


async def test_repeats_can_be_allowed(open_box: Any) -> None:
    done, count_up = counter()
    session = await (await open_box(count_up)).session("s")
    for _ in range(5):
        step = session.step("plain", limits=StepLimits(repeats=0))
        await step.call("count_up", {"label": "a"})
        await step.finish()
    assert len(done) == 5


async def test_the_plain_loop_refuses_repeats_as_the_agent_does(open_box: Any) -> None:
    done, count_up = counter()
    session = await (await open_box(count_up)).session("s")
    texts: list[str] = []
    for n in range(4):
        call = {"id": f"c{n}", "type": "tool_use", "name": "count_up", "input": {"label": "a"}}
        reply = {"role": "assistant", "stop_reason": "tool_use", "content": [call]}
        session.view("anthropic")
        texts.append(str((await session.answer(reply))[-1]))
    assert len(done) == 3
    assert "was not run" in texts[3]
    assert await session.answer({"stop_reason": "end_turn", "content": []}) == []
    await session.answer({"role": "assistant", "stop_reason": "tool_use", "content": [call]})
    assert len(done) == 4  # a new turn


# The end of a step


async def test_finishing_fits_the_results_of_the_step_together(
    open_box: Any, tmp_path: Any
) -> None:
    limits = OffloadLimits(threshold_tokens=4_000, turn_tokens=6_000)
    box = await open_box(long_report, offload=ResultStore(tmp_path / "outputs", limits=limits))
    session = await box.session("s")
    step = session.step("plain")
    before = await asyncio.gather(*(step.call("long_report", {"words": 3_000}) for _ in range(4)))
    after = await step.finish()
    assert [r.call.id for r in after] == [r.call.id for r in before]
    assert sum(len(r.result.text) for r in after) < sum(len(r.result.text) for r in before)
    assert all(r.full.text == "word " * 3_000 for r in after)


async def test_finishing_saves_the_session(open_box: Any, file: Any) -> None:
    box = await open_box(store=file)
    session = await box.session("s")
    step = session.step("anthropic")
    await step.finish()
    reopened = await (await open_box(store=file)).session("s")
    assert reopened.state.sections == session.state.sections


async def test_a_finished_step_cannot_be_used_again(open_box: Any) -> None:
    done, count_up = counter()
    session = await (await open_box(count_up)).session("s")
    step = session.step("plain")
    await step.finish()
    for use in (step.call("count_up"), step.run([Call("1", "count_up")]), step.finish()):
        with pytest.raises(ToolscoutError, match="This step is finished"):
            await use
    assert done == []


async def test_two_tasks_cannot_both_finish_a_step(open_box: Any) -> None:
    step = (await (await open_box()).session("s")).step("plain")
    ends = await asyncio.gather(step.finish(), step.finish(), return_exceptions=True)
    assert [type(end) for end in ends] == [tuple, ToolscoutError]


async def test_finishing_waits_for_calls_of_other_tasks(open_box: Any) -> None:
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "done"

    step = (await (await open_box(wait)).session("s")).step("plain")
    call = asyncio.create_task(step.call("wait"))
    await asyncio.sleep(0)
    end = asyncio.create_task(step.finish())
    await asyncio.sleep(0)
    gate.set()
    (record,) = await end
    assert record == await call
    assert record.result.text == "done"


async def test_a_step_of_a_closed_toolbox_says_so(open_box: Any) -> None:
    done, count_up = counter()
    box = await open_box(count_up)
    session = await box.session("s")
    step = session.step("plain")
    await box.close()
    record = await step.call("count_up")
    assert (record.outcome, done) == ("closed", [])
    assert "is closed" in record.result.text
    with pytest.raises(ToolscoutError, match="is closed"):
        session.step("plain")


# Ids


async def test_the_same_call_with_the_same_id_runs_once(open_box: Any) -> None:
    done, count_up = counter()
    step = (await (await open_box(count_up)).session("s")).step("plain")
    both = await step.run([Call("1", "count_up"), Call("1", "count_up")])
    third = await step.call("count_up", "{}", id="1")
    assert [r.result.text for r in (*both, third)] == ["counted "] * 3
    assert done == [""]
    assert len(await step.finish()) == 1


async def test_another_call_with_the_same_id_is_refused(open_box: Any) -> None:
    done, count_up = counter()
    step = (await (await open_box(count_up)).session("s")).step("plain")
    first, second = await step.answer(
        [Call("1", "count_up", '{"label": "a"}'), Call("1", "count_up", '{"label": "b"}')]
    )
    assert (first.outcome, second.outcome, done) == ("ok", "refused", ["a"])
    assert "has the id '1'" in second.result.text


# Hooks and interruptions


async def test_hooks_see_the_real_call_and_may_change_it(open_box: Any) -> None:
    class Careful(StepHooks):
        def __init__(self) -> None:
            self.seen: list[str] = []

        async def before_call(self, call: Call) -> Call | Result | None:
            self.seen.append(f"{call.name} {call.arguments}")
            if "bob" in call.arguments:
                return Result.of("Bob gets no mail.")
            return Call("other", call.name, '{"to": "eve", "subject": "Hi"}')

        async def after_call(self, call: Call, result: Result) -> Result | None:
            return Result.of(f"[{result.text}]")

    hooks = Careful()
    session = await (await open_box()).session("s")
    step = session.step("plain", hooks=hooks)
    inner = {"name": "send_email", "arguments": {"to": "ann", "subject": "Hi"}}
    ann = await step.call("call_tool", inner, id="1")
    bob = await step.call("send_email", {"to": "bob", "subject": "Hi"}, id="2")
    assert hooks.seen[0] == 'send_email {"to": "ann", "subject": "Hi"}'
    assert ann.result.text == "[1 sent to eve: Hi]"
    assert (ann.call.id, ann.is_run) == ("1", True)
    assert (bob.result.text, bob.is_run) == ("[Bob gets no mail.]", False)


async def test_an_interrupted_call_is_recorded_as_such(open_box: Any) -> None:
    started = asyncio.Event()

    @tool
    async def hang() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    _, count_up = counter()
    step = (await (await open_box(hang, count_up)).session("s")).step("plain")
    calls = [Call("1", "count_up"), Call("2", "hang")]
    await step.run(calls[:1])
    task = asyncio.create_task(step.run(calls[1:]))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    done, hung = step.records_for(calls)
    assert (done.outcome, hung.outcome, hung.is_run) == ("ok", "cancelled", True)
    assert "may or may not have had an effect" in hung.result.text


# Whatever a model or a tool does


class Odd(BaseException):
    """An exception that is no Exception."""


@pytest.mark.parametrize("error", [Odd("x"), BaseExceptionGroup("g", [Odd("x")]), SystemExit(3)])
@pytest.mark.parametrize("is_async", [True, False])
async def test_whatever_a_tool_raises_is_its_result(
    open_box: Any, error: BaseException, is_async: bool
) -> None:
    async def fail_async() -> str:
        """Fail."""
        raise error

    def fail_plainly() -> str:
        """Fail."""
        raise error

    function = tool(name="fail")(fail_async if is_async else fail_plainly)
    session = await (await open_box(function)).session("s")
    record = await session.step("plain").call("fail")
    assert (record.outcome, record.is_run) == ("call", True)
    assert type(error).__name__ in record.result.text


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("arguments", [nested(3_000), cyclic(), {"a": Mute()}, [1], 5])
async def test_arguments_that_cannot_be_read_are_an_error_for_the_model(
    open_box: Any, arguments: Any
) -> None:
    done, count_up = counter()
    session = await (await open_box(count_up)).session("s")
    record = await session.step("plain").call("count_up", arguments)
    assert (record.outcome, done) == ("invalid_arguments", [])


@pytest.mark.parametrize("name", [None, 5, b"x", ["x"], True])
async def test_a_name_that_is_not_text_is_an_error_for_the_model(open_box: Any, name: Any) -> None:
    _, count_up = counter()
    session = await (await open_box(count_up)).session("s")
    assert (await session.step("plain").call(name, {})).outcome == "unknown_tool"
    assert (await session.approve(name)).outcome == "refused"


async def test_a_deeply_nested_call_of_an_sdk_is_an_error_for_the_model(open_box: Any) -> None:
    _, count_up = counter()
    session = await (await open_box(count_up)).session("s")
    call = {"id": "1", "type": "tool_use", "name": "count_up", "input": nested(3_000)}
    messages = await session.answer({"stop_reason": "tool_use", "content": [call]})
    assert "not JSON" in str(messages[-1])


@pytest.mark.parametrize(
    "reply",
    [
        {"choices": [{"message": None}]},
        {"stop_reason": "tool_use", "content": [{"type": "tool_use", "id": "1", "name": 5}]},
    ],
)
async def test_an_invalid_reply_is_reported(open_box: Any, reply: Any) -> None:
    session = await (await open_box()).session("s")
    with pytest.raises(ToolscoutError, match="not in the format of"):
        await session.answer(reply)


async def test_a_call_that_a_reply_has_twice_runs_once(open_box: Any) -> None:
    done, count_up = counter()
    session = await (await open_box(count_up)).session("s")
    call = {"type": "function_call", "call_id": "1", "name": "count_up", "arguments": "{}"}
    await session.answer({"output": [call, call]})
    assert done == [""]


async def test_a_call_refused_by_a_step_is_an_event_and_a_row(open_box: Any, file: Any) -> None:
    events: list[Event] = []
    _, count_up = counter()
    box = await open_box(count_up, sink=events.append, store=file)
    session = await box.session("s")
    for _ in range(4):
        step = session.step("plain")
        await step.call("count_up")
        await step.finish()
    step = session.step("plain", limits=StepLimits(calls=2, argument_chars=50))
    await step.call("count_up", {"label": "x" * 100}, id="1")
    await step.call("count_up", {"label": "a"}, id="1")
    await step.call("count_up", {"label": "b"}, id="2")
    await step.call("count_up", {"label": "c"}, id="3")
    refused = [e.code for e in events if isinstance(e, ToolRefusedEvent)]
    assert refused == ["repeated", "invalid_arguments", "refused", "refused"]
    rows = box.journal.store.read(LogFilter(kind="refusal"), is_newest_first=False)
    assert [row.outcome for row in rows] == refused


async def test_a_passed_exception_is_the_one_that_was_raised(open_box: Any) -> None:
    session = await (await open_box(suspend)).session("s")
    with pytest.raises(Suspended) as raised:
        await session.step("plain", passes=[Suspended]).answer([Call("1", "suspend")])
    assert raised.value.__cause__ is None


def test_limits_that_would_let_nothing_through_are_refused() -> None:
    with pytest.raises(ConfigError, match="would allow no call"):
        StepLimits(parallel=0)


async def test_an_approval_given_later_says_why_it_was_asked(open_box: Any) -> None:
    events: list[Event] = []
    session = await (await open_box(sink=events.append)).session("s")
    await session.load("delete_page")
    for decide in (session.approve, session.refuse):
        record = await session.step("plain").call("delete_page", {"page": 1})
        assert record.needs is not None
        await decide(record.needs.id)
    reasons = [e.why for e in events if isinstance(e, ApprovalEvent)]
    assert len(reasons) == 2
    assert all("destructive" in why for why in reasons)


async def test_rules_in_the_settings_start_with_a_journal(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "mail.md").write_text("Be polite.")
    config = Config.read(
        environment={}, home=str(tmp_path), embedder="none", rules=[str(tmp_path / "rules")]
    )
    async with Toolbox([fail], config=config) as box:
        await box.session("s")
    assert "A sink failed" not in caplog.text
