"""Working memory over the turns of a conversation, for runs and for streams alike."""

from __future__ import annotations

import logging

import pytest
from tests.agent.office import Agent, Office, calls, open_office, search

from toolscout.catalog.tool import Extraction
from toolscout.memory.memory import Memory
from toolscout.models.scripted import ScriptedModel
from toolscout.search.engine import Engine
from toolscout.sources.functions import FunctionSource, tool
from toolscout.toolbox.features import MEMORY
from toolscout.toolbox.toolbox import Toolbox

ANN = calls(("find_contact", {"name": "Ann"}))


async def page_box(memory: Memory, *, is_broken: bool = False) -> Toolbox:
    """A toolbox whose one tool returns a page, or nonsense."""

    @tool(
        category="pages",
        defer="never",
        extraction=Extraction(path="page", type="page", name_field="title"),
    )
    async def get_page(number: int) -> object:
        """Get a page."""
        return "nonsense" if is_broken else {"page": {"id": number, "title": f"Page {number}"}}

    return Toolbox(
        FunctionSource([get_page]), profile="cms", store="memory", memory=memory, engine=Engine()
    )


@pytest.mark.behaviour("E89", "E90", "E91", "E97", "E118")
async def test_found_and_used_tools_are_remembered_and_counted_per_call() -> None:
    memory = Memory()
    model = ScriptedModel(
        [
            calls(search("look up an address")),
            calls(("find_contact", {"name": "Ann"}), ("find_contact", {"name": "Bob"})),
            "Done.",
            calls(search("send an email")),
            ANN,
            "Done again.",
        ]
    )
    async with open_office(Office(), memory=memory) as box:
        agent = Agent(box, model=model)
        await agent.run("Look them up", session="s")
        first = (await box.session("s")).state
        await agent.run("And Ann once more", session="s")
        second = (await box.session("s")).state
    counts = [
        {u.name: u.count for u in memory.state(s.sections[MEMORY]).used} for s in (first, second)
    ]
    assert counts == [{"find_contact": 2}, {"find_contact": 3}]
    assert second.loaded[: len(first.loaded)] == first.loaded
    assert "send_email" in second.loaded


@pytest.mark.behaviour("E92", "E96", "E111")
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_results_are_remembered_for_runs_and_for_streams(is_streamed: bool) -> None:
    memory = Memory()
    model = ScriptedModel([calls(("get_page", {"number": 7})), "Here it is.", "Page 7, as I said."])
    async with await page_box(memory) as box:
        agent = Agent(box, model=model)
        if is_streamed:
            assert [h async for h in agent.stream("Get page 7", session="s")]
        else:
            await agent.run("Get page 7", session="s")
        await agent.run("Which page was it?", session="s")
        state = memory.state((await box.session("s")).state.sections[MEMORY])
    assert [(e.type, e.id, e.name) for e in state.entities] == [("page", "7", "Page 7")]
    told = [m for m in model.requests[-1].messages if m.role == "system"]
    assert "Page 7" in told[-1].text


@pytest.mark.behaviour("E73", "E118")
async def test_a_new_conversation_has_nothing_to_remember() -> None:
    model = ScriptedModel(["Hello."])
    async with open_office(Office(), memory=Memory()) as box:
        await Agent(box, model=model).run("Hi")
    assert [m.role for m in model.requests[0].messages] == ["user"]


async def test_the_memory_comes_after_the_whole_conversation() -> None:
    """A reminder in the instructions would spoil the provider's cache at every turn."""
    model = ScriptedModel([calls(("get_page", {"number": 7})), "Here.", "Yes.", "Yes."])
    async with await page_box(Memory()) as box:
        agent = Agent(box, model=model)
        for text in ("Get page 7", "Is it there?", "Sure?"):
            await agent.run(text, session="s")
    before, after = model.requests[1], model.requests[2]
    assert after.messages[: len(before.messages)] == before.messages
    assert [m.role for m in after.messages[-2:]] == ["system", "user"]
    assert {r.instructions for r in model.requests} == {before.instructions}
    assert [m.role for m in model.requests[3].messages].count("system") == 1


@pytest.mark.behaviour("E95", "E118")
async def test_memory_goes_with_its_conversation() -> None:
    memory = Memory()
    model = ScriptedModel([calls(("get_page", {"number": 7})), "Here.", "Who?"])
    async with await page_box(memory) as box:
        agent = Agent(box, model=model)
        await agent.run("Get page 7", session="s")
        await (await box.session("s")).forget()
        await agent.run("Which page?", session="s")
    assert len(model.requests[-1].messages) == 1


@pytest.mark.behaviour("E111", "E112")
async def test_a_turn_whose_results_were_all_lost_on_the_memory_warns_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScriptedModel([calls(*[("get_page", {"number": n}) for n in (1, 2, 3)]), "Odd.", "Hi."])
    async with await page_box(Memory(), is_broken=True) as box:
        agent = Agent(box, model=model)
        run = await agent.run("Get the pages", session="s")
        await agent.run("Hello", session="s")
    assert run.text == "Odd."
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    (silent,) = (t for t in told if "none was processed" in t)
    assert silent.startswith("3 tool results")
