"""Runs of one conversation come one after another, and only what is a message begins one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from tests.agent.office import Agent, Office, calls, open_office

from toolscout import Toolbox, ToolscoutError
from toolscout.agent.stream_events import CallStartEvent
from toolscout.models.model import ModelRequest
from toolscout.models.scripted import ScriptedModel, Turn

EVERYTHING = "everything"


def said(request: ModelRequest) -> list[str]:
    """Who spoke in a request, and what calls came to."""
    return [
        f"{m.role}: {m.text or ' '.join(r.result.code for r in m.results)}"
        for m in request.messages
    ]


async def test_after_leaving_a_stream_early_the_next_run_knows_what_happened() -> None:
    office = Office()
    model = ScriptedModel([calls("hang", say="One moment."), "Where were we?"])
    async with open_office(office, profile=EVERYTHING) as box:
        agent = Agent(box, model=model)
        async for event in agent.stream("Wait for it", session="s"):
            if isinstance(event, CallStartEvent):
                break
        run = await agent.run("Well?", session="s")
    assert run.text == "Where were we?"
    assert said(model.requests[1]) == [
        "user: Wait for it",
        "assistant: One moment.",
        "tool: cancelled",
        "user: Well?",
    ]


async def test_two_runs_of_one_conversation_take_turns_in_the_order_they_came() -> None:
    model = ScriptedModel([calls("rate"), "One.", calls("rate"), "Two.", calls("rate"), "Three."])
    async with open_office(Office(), profile=EVERYTHING) as box:
        agents = [Agent(box, model=model) for _ in range(3)]
        runs = await asyncio.gather(
            *(a.run(f"Question {i}", session="s") for i, a in enumerate(agents))
        )
    assert [run.text for run in runs] == ["One.", "Two.", "Three."]
    assert said(model.requests[-1]) == [
        "user: Question 0",
        "assistant: ",
        "tool: ",
        "assistant: One.",
        "user: Question 1",
        "assistant: ",
        "tool: ",
        "assistant: Two.",
        "user: Question 2",
        "assistant: ",
        "tool: ",
    ]


async def test_runs_of_other_conversations_do_not_wait() -> None:
    """Three meet inside their tools, which they could not if one waited for another."""
    model = ScriptedModel([calls(("meet", {"who": "all"}))] * 3 + ["Met."] * 3)
    async with open_office(Office(), profile=EVERYTHING) as box:
        agent = Agent(box, model=model)
        runs = await asyncio.gather(*(agent.run("Meet", session=f"s{i}") for i in range(3)))
    assert [run.text for run in runs] == ["Met."] * 3


async def test_a_run_that_would_wait_for_itself_is_refused() -> None:
    async def ask_again() -> str:
        """Ask the same conversation something else."""
        return (await agent.run("And?", session="s")).text

    model = ScriptedModel([calls("ask_again"), "I could not."])
    async with Toolbox([ask_again], profile=EVERYTHING, store="memory") as box:
        agent = Agent(box, model=model)
        run = await agent.run("Ask yourself", session="s")
    assert run.text == "I could not."
    assert "its own session" in run.steps[0].outcomes[0].result.text


async def test_a_tool_may_run_another_conversation_and_the_same_one_later() -> None:
    async def ask_aside() -> str:
        """Ask another conversation."""
        return (await agent.run("Aside", session="other")).text

    model = ScriptedModel([calls("ask_aside"), "From aside.", "Heard.", "Later."])
    async with Toolbox([ask_aside], profile=EVERYTHING, store="memory") as box:
        agent = Agent(box, model=model)
        run = await agent.run("Ask", session="s")
        later = await agent.run("Again", session="s")
    assert run.steps[0].outcomes[0].result.text == "From aside."
    assert (run.text, later.text) == ("Heard.", "Later.")


@pytest.mark.parametrize("text", [None, {"role": "user"}, 5, "", " \n"])
async def test_an_invalid_message_is_refused_before_anything_is_stored(text: Any) -> None:
    model = ScriptedModel(["Hello."])
    async with open_office(Office()) as box:
        agent = Agent(box, model=model)
        with pytest.raises(ToolscoutError, match="message"):
            await agent.run(text, session="s")
        with pytest.raises(ToolscoutError, match="message"):
            async with aclosing(agent.stream(text, session="s")) as stream:
                await anext(stream)
        assert await box.sessions() == ()
        run = await agent.run("Hi", session="s")
    assert (run.text, len(run.messages)) == ("Hello.", 2)


async def test_an_invalid_toolbox_is_refused_with_how_to_write_it() -> None:
    box: Any = [print]
    with pytest.raises(
        ToolscoutError, match=r"needs a toolbox, not a list. Write: async with Toolbox"
    ):
        Agent(box, model=ScriptedModel(["Hi"]))


async def test_half_a_character_of_the_user_is_replaced_and_the_rest_is_kept() -> None:
    model = ScriptedModel(["Hello."])
    async with open_office(Office()) as box:
        await Agent(box, model=model).run("Hi \ud83d there")
    assert said(model.requests[0]) == ["user: Hi \ufffd there"]


async def test_watchers_hear_only_what_can_be_printed() -> None:
    model = ScriptedModel([Turn(say="Hi \ud83d")])
    async with open_office(Office()) as box:
        told = [h async for h in Agent(box, model=model).stream("Hi")]
    assert str(told).encode()
