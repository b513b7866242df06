"""How runs end, and what is left when they do."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path

import pytest
from tests.agent.office import Agent, Office, calls, open_office, search, shown

from toolscout.agent.compaction import by_count
from toolscout.agent.steps import RunLimits
from toolscout.agent.stop_conditions import (
    TokenPrices,
    after_steps,
    on_call,
    over_cost,
    over_tokens,
    when,
)
from toolscout.agent.stream_events import (
    CallEndEvent,
    CallStartEvent,
    LoadEvent,
    RetryEvent,
    RunEndEvent,
    StepEndEvent,
    StreamEvent,
    TextEvent,
)
from toolscout.errors import ConfigError, ModelError
from toolscout.events import Event
from toolscout.models.deltas import Usage
from toolscout.models.messages import CONVERSATION_SECTION, Message, load_history
from toolscout.models.retry import Backoff
from toolscout.models.scripted import ScriptedCall, ScriptedFailure, ScriptedModel, Turn

EVERYTHING = "everything"
QUICK = Backoff(first_seconds=0.0)
EXPENSIVE = Turn(calls=(ScriptedCall("rate"),), usage=Usage(input_tokens=900, output_tokens=100))


def whole(messages: tuple[Message, ...]) -> bool:
    """Every call is answered right after it, and nothing else is."""
    for place, message in enumerate(messages):
        after = messages[place + 1].results if place + 1 < len(messages) else ()
        if [c.id for c in message.calls] != [r.id for r in after]:
            return False
    return True


async def conversation(box: object, session: str) -> tuple[Message, ...]:
    handle = await box.session(session)  # type: ignore[attr-defined]
    return load_history(handle.state.sections.get(CONVERSATION_SECTION))


@pytest.mark.behaviour("E131")
async def test_a_run_that_does_not_end_is_ended_after_fifteen_steps() -> None:
    model = ScriptedModel([calls(("find_contact", {"name": str(i)})) for i in range(99)])
    async with open_office(Office(), profile=EVERYTHING) as box:
        run = await Agent(box, model=model).run("Go")
    assert (len(run.steps), run.stopped_by) == (15, "15 steps")
    assert whole(run.messages)


@pytest.mark.behaviour("E131", "S12")
async def test_a_final_answer_tool_ends_the_run_with_its_answer() -> None:
    model = ScriptedModel([calls("rate"), calls(("final_answer", {"answer": "42"})), "never said"])
    async with open_office(Office(), profile=EVERYTHING) as box:
        run = await Agent(box, model=model, stops=[on_call("final_answer")]).run("Go")
    assert (run.text, run.stopped_by) == ("42", "the call of final_answer")
    assert len(model.requests) == 2


@pytest.mark.behaviour("E131")
async def test_a_final_answer_that_failed_does_not_end_the_run() -> None:
    model = ScriptedModel(
        [calls("final_answer"), calls(("final_answer", {"answer": "ok"})), "never said"]
    )
    async with open_office(Office(), profile=EVERYTHING) as box:
        run = await Agent(box, model=model, stops=[on_call("final_answer")]).run("Go")
    assert (run.text, len(run.steps)) == ("ok", 2)


@pytest.mark.behaviour("E131")
async def test_any_rule_over_what_has_happened_can_end_a_run() -> None:
    office = Office()
    enough = when(lambda progress: len(office.done) >= 2, reason="two letters are enough")
    mail = ("send_email", {"to": "a", "subject": "b"})
    model = ScriptedModel([calls(mail), calls(mail), calls(mail)])
    async with open_office(office, profile=EVERYTHING) as box:
        run = await Agent(box, model=model, stops=[enough]).run("Go")
    assert (run.stopped_by, len(office.done)) == ("two letters are enough", 2)


async def test_a_budget_of_tokens_ends_a_run() -> None:
    async with open_office(Office(), profile=EVERYTHING) as box:
        agent = Agent(box, model=ScriptedModel([EXPENSIVE] * 9), stops=[over_tokens(2_500)])
        run = await agent.run("Go")
    assert len(run.steps) == 3
    assert "2500 tokens" in run.stopped_by
    assert run.usage == Usage(input_tokens=2_700, output_tokens=300)


async def test_a_budget_of_money_ends_a_run_and_cached_tokens_cost_less() -> None:
    prices = TokenPrices(fresh=3.0, output=15.0, cached=0.3, written=3.75)
    usage = Usage(input_tokens=1_000_000, output_tokens=0, cached_tokens=900_000)
    assert prices.cost(usage) == pytest.approx(0.57)
    stop = over_cost(0.01, prices=prices)
    async with open_office(Office(), profile=EVERYTHING) as box:
        run = await Agent(box, model=ScriptedModel([EXPENSIVE] * 9), stops=[stop]).run("Go")
    assert len(run.steps) == 3
    assert "0.01" in run.stopped_by


@pytest.mark.parametrize("reason", ["length", "refused"])
async def test_a_reply_that_ended_early_says_why(reason: str) -> None:
    model = ScriptedModel([Turn(say="I was", reason=reason)])  # type: ignore[arg-type]
    async with open_office(Office()) as box:
        run = await Agent(box, model=model).run("Go")
    assert (run.text, run.stopped_by) == ("I was", reason)


async def test_a_model_that_pauses_is_asked_to_continue() -> None:
    model = ScriptedModel([Turn(say="Let me think", reason="paused"), "Done."])
    async with open_office(Office()) as box:
        run = await Agent(box, model=model).run("Go")
    assert (run.text, run.stopped_by, len(model.requests)) == ("Done.", "answer", 2)


@pytest.mark.behaviour("S10")
async def test_the_same_call_twice_in_a_row_is_noticed_and_reported_to_the_model() -> None:
    seen: list[Event] = []
    again = calls(("find_contact", {"name": "Ann"}))
    respelled = calls(("find_contact", '{ "name" : "Ann" }'))
    model = ScriptedModel([again, respelled, "I see."])
    async with open_office(Office(), profile=EVERYTHING, seen=seen) as box:
        await Agent(box, model=model).run("Go")
    assert not any(m.role == "system" for m in model.requests[1].messages)
    last = model.requests[2].messages[-1]
    assert (last.role, "find_contact" in last.text) == ("system", True)
    assert "stuck" in [e.kind for e in seen]


@pytest.mark.behaviour("S10")
async def test_different_calls_in_a_row_cause_no_warning() -> None:
    turns = [calls(("find_contact", {"name": n})) for n in ("Ann", "Bob", "Ann", "Bob")]
    model = ScriptedModel([*turns, "Done."])
    async with open_office(Office(), profile=EVERYTHING) as box:
        await Agent(box, model=model).run("Go")
    assert not any(m.role == "system" for m in model.requests[-1].messages)


async def test_a_call_repeated_to_no_effect_is_not_made_again_and_ends_the_run() -> None:
    office = Office()
    model = ScriptedModel([calls(("find_contact", {"name": "Ann"}))] * 20)
    async with open_office(office, profile=EVERYTHING) as box:
        run = await Agent(box, model=model, stops=[]).run("Go")
    assert len(office.done) == 3
    assert "was not run" in run.steps[3].outcomes[0].result.text
    assert (len(run.steps), run.stopped_by) == (5, "the same call 5 times")
    assert whole(run.messages)


async def test_polling_something_that_changes_is_allowed() -> None:
    model = ScriptedModel([*[calls("rate")] * 6, "It rises."])
    async with open_office(Office(), profile=EVERYTHING) as box:
        run = await Agent(box, model=model).run("Watch the rate")
    assert (run.text, len(run.steps)) == ("It rises.", 7)


async def test_a_run_can_be_cancelled_and_the_conversation_stays_whole(tmp_path: Path) -> None:
    office = Office()
    model = ScriptedModel(
        [calls(("find_contact", {"name": "Ann"}), "hang"), "It was cancelled, I see."]
    )
    async with open_office(office, profile=EVERYTHING, store=tmp_path / "s.db") as box:
        looked_up = asyncio.Event()

        async def watch() -> None:
            async for told in Agent(box, model=model).stream("Go", session="s"):
                if isinstance(told, CallEndEvent):
                    looked_up.set()

        running = asyncio.create_task(watch())
        await asyncio.gather(office.hanging.wait(), looked_up.wait())
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    async with open_office(office, profile=EVERYTHING, store=tmp_path / "s.db") as box:
        messages = await conversation(box, "s")
        assert whole(messages)
        done, broken_off = (r.result for r in messages[-1].results)
        assert not done.is_error
        assert (broken_off.code, "did not finish" in broken_off.text) == ("cancelled", True)
        run = await Agent(box, model=model).run("What happened?", session="s")
    assert run.text == "It was cancelled, I see."


async def test_a_limit_of_time_ends_a_run_and_the_conversation_stays_whole() -> None:
    model = ScriptedModel([calls("hang"), "Later."])
    async with open_office(Office(), profile=EVERYTHING) as box:
        agent = Agent(box, model=model, limits=RunLimits(seconds=0.05))
        run = await agent.run("Go", session="s")
        assert run.stopped_by == "a limit of 0.05 seconds"
        assert whole(await conversation(box, "s"))


async def test_a_stream_that_is_left_early_ends_its_run() -> None:
    office = Office()
    model = ScriptedModel([calls("hang"), "never said"])
    async with open_office(office, profile=EVERYTHING) as box:
        async with aclosing(Agent(box, model=model).stream("Go", session="s")) as stream:
            async for event in stream:
                if isinstance(event, CallStartEvent):
                    break
        assert whole(await conversation(box, "s"))
    assert len(model.requests) == 1


async def test_a_service_that_is_busy_is_asked_again() -> None:
    seen: list[Event] = []
    busy = Turn(say="Hal", error=ScriptedFailure(status=429, message="slow down"))
    told: list[StreamEvent] = []
    async with open_office(Office(), seen=seen) as box:
        agent = Agent(box, model=ScriptedModel([busy, busy, "Hello."]), backoff=QUICK)
        told += [h async for h in agent.stream("Hi")]
    assert [h.attempt for h in told if isinstance(h, RetryEvent)] == [2, 3]
    assert isinstance(told[-1], RunEndEvent)
    assert told[-1].run.text == "Hello."
    assert [e.facts["attempt"] for e in seen if e.kind == "model_retry"] == [2, 3]


@pytest.mark.parametrize("status", [400, 401, 500])
async def test_a_service_that_fails_permanently_is_reported_and_the_conversation_continues_later(
    status: int,
) -> None:
    seen: list[Event] = []
    fault = Turn(error=ScriptedFailure(status=status, message="out of order"))
    failing = ScriptedModel([calls("rate"), *[fault] * 9])
    working = ScriptedModel(["Back again."])
    async with open_office(Office(), profile=EVERYTHING, seen=seen) as box:
        with pytest.raises(ModelError, match="out of order"):
            await Agent(box, model=failing, backoff=QUICK).run("Go", session="s")
        assert whole(await conversation(box, "s"))
        run = await Agent(box, model=working).run("Still there?", session="s")
    assert run.text == "Back again."
    assert len(working.requests[0].messages) == 4
    ended = [e.facts for e in seen if e.kind == "run_end"]
    assert [facts.get("error") for facts in ended] == ["model", None]
    assert [e.facts["status"] for e in seen if e.kind == "model_failed"] == [status]


@pytest.mark.behaviour("E133")
async def test_a_model_no_view_can_be_made_for_is_refused_before_any_run() -> None:
    async with open_office(Office()) as box:
        with pytest.raises(ConfigError, match="teletype"):
            Agent(box, model=ScriptedModel([], provider="teletype"))


@pytest.mark.behaviour("E79", "K27", "S21")
async def test_a_long_conversation_is_cut_for_good_and_what_was_loaded_stays() -> None:
    seen: list[Event] = []
    answers = [f"Answer {i}." for i in range(12)]
    model = ScriptedModel([calls(search("send an email")), "Found.", *answers])
    async with open_office(Office(), seen=seen) as box:
        agent = Agent(box, model=model, compactor=by_count(after=20, keep=10))
        await agent.run("Find a mail tool", session="s")
        for number in range(12):
            await agent.run(f"Question {number}", session="s")
        messages = await conversation(box, "s")
    sizes = [len(r.messages) for r in model.requests]
    assert max(sizes) <= 20
    cut = next(p for p in range(1, len(sizes)) if sizes[p] < sizes[p - 1])
    assert sizes[cut] == 11
    assert model.requests[cut].messages[0].text == "Find a mail tool"
    assert "send_email" in shown(model)
    assert whole(messages)
    assert len(messages) < 21
    trimmed = [e.facts for e in seen if e.kind == "context_trimmed"]
    assert trimmed[0] == {"before": 22, "after": 11}


async def test_by_default_a_conversation_is_cut_when_it_outgrows_the_context_window() -> None:
    model = ScriptedModel([f"Answer {i}." for i in range(12)])
    async with open_office(Office(), window=1_000) as box:
        agent = Agent(box, model=model)
        for number in range(12):
            await agent.run(f"Question {number} {'word ' * 100}", session="s")
    sizes = [len(r.messages) for r in model.requests]
    assert any(after < before for before, after in pairwise(sizes))
    assert model.requests[-1].messages[0].text.startswith("Question 0")


async def test_rules_of_ones_own_leave_the_limit_of_steps_and_a_limit_replaces_it() -> None:
    turns = [calls(("find_contact", {"name": str(i)})) for i in range(99)]
    never = when(lambda _: False, reason="never")
    ends = []
    for stops in ([], [never], [never, after_steps(20)]):
        async with open_office(Office(), profile=EVERYTHING) as box:
            run = await Agent(box, model=ScriptedModel(turns), stops=stops).run("Go")
        ends.append((len(run.steps), run.stopped_by))
    assert ends == [(15, "15 steps"), (15, "15 steps"), (20, "20 steps")]


@pytest.mark.behaviour("E111")
async def test_everything_is_reported_as_it_happens_in_order() -> None:
    model = ScriptedModel(
        [
            calls(search("send an email"), say="Looking. "),
            calls(("send_email", {"to": "a", "subject": "b"})),
            "Sent it.",
        ]
    )
    async with open_office(Office()) as box:
        told = [h async for h in Agent(box, model=model).stream("Mail a")]
    kinds = [type(h).__name__ for h in told]
    assert [k for k, before in zip(kinds, ["", *kinds], strict=False) if k != before] == [
        "TextEvent",
        "CallStartEvent",
        "CallEndEvent",
        "LoadEvent",
        "StepEndEvent",
        "CallStartEvent",
        "CallEndEvent",
        "StepEndEvent",
        "TextEvent",
        "StepEndEvent",
        "RunEndEvent",
    ]
    assert "".join(h.text for h in told if isinstance(h, TextEvent)) == "Looking. Sent it."
    assert [h.outcome.result.text for h in told if isinstance(h, CallEndEvent)][1] == "sent to a"
    assert "send_email" in next(h.names for h in told if isinstance(h, LoadEvent))
    assert [h.step.number for h in told if isinstance(h, StepEndEvent)] == [0, 1, 2]


@pytest.mark.behaviour("E120")
async def test_the_end_of_a_run_tells_searches_and_what_they_found() -> None:
    seen: list[Event] = []
    model = ScriptedModel(
        [calls(search("send an email")), calls(search("exchange rate now")), "Done."]
    )
    async with open_office(Office(), seen=seen) as box:
        run = await Agent(box, model=model, stops=[after_steps(9)]).run("Go")
    end = next(e.facts for e in seen if e.kind == "run_end")
    assert (end["searches"], end["discovered"]) == (2, len(run.tools_loaded))
    assert end["steps"] == 3


async def test_without_a_session_every_message_is_a_new_conversation() -> None:
    model = ScriptedModel(["One.", "Two."])
    async with open_office(Office()) as box:
        agent = Agent(box, model=model)
        first, second = await agent.run("a"), await agent.run("b")
    assert first.session != second.session
    assert [len(r.messages) for r in model.requests] == [1, 1]


async def test_an_agent_opens_a_model_by_its_spec_and_closes_it(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('["Hello from the file."]', encoding="utf-8")
    async with open_office(Office()) as box, Agent(box, model=f"scripted:{path}") as agent:
        run = await agent.run("Hi")
    assert run.text == "Hello from the file."
    assert run.usage.input_tokens > 0
