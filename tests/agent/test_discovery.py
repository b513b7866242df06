"""From a message to a search, to the tool found, to the answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.agent.office import Agent, Office, calls, open_office, search, shown

from toolscout.disclosure.designs.cms import CMS
from toolscout.events import Event
from toolscout.models.scripted import ScriptedModel
from toolscout.sources.functions import FunctionSource, tool

MAIL = ("send_email", {"to": "ann@example.com", "subject": "Invoice"})


@pytest.mark.behaviour("E1", "E2", "E76", "E80")
async def test_a_question_that_needs_no_tool_is_answered_at_once() -> None:
    model = ScriptedModel(["Photosynthesis turns light into sugar."])
    async with open_office(Office()) as box:
        run = await Agent(box, model=model).run("What is photosynthesis?")
    assert shown(model) == ["tool_search"]
    assert model.requests[0].choice == "auto"
    assert (run.searches, len(run.steps), run.stopped_by) == (0, 1, "answer")


@pytest.mark.behaviour("E1", "E76", "E77", "E78", "E116", "E75")
async def test_found_tools_are_active_in_the_next_step_and_can_be_used() -> None:
    office = Office()
    model = ScriptedModel([calls(search("send an email")), calls(MAIL), "Done: it is sent."])
    async with open_office(office) as box:
        run = await Agent(box, model=model).run("Mail the invoice to Ann")
    assert shown(model, 0) == ["tool_search"]
    assert shown(model, 1)[0] == "tool_search"
    assert "send_email" in shown(model, 1)
    assert office.done == ["mail to ann@example.com: Invoice"]
    assert run.text == "Done: it is sent."
    assert [r.choice for r in model.requests] == ["auto"] * 3


@pytest.mark.behaviour("E77")
async def test_after_a_search_that_finds_nothing_only_the_search_is_there() -> None:
    model = ScriptedModel([calls(search("")), "I cannot help."])
    async with open_office(Office()) as box:
        await Agent(box, model=model).run("Hm")
    assert shown(model, 1) == ["tool_search"]


@pytest.mark.behaviour("E78")
async def test_the_search_tool_stays_first_however_much_is_loaded() -> None:
    queries = ["send an email", "look up an address", "exchange rate now", "remove an account"]
    model = ScriptedModel([*(calls(search(q)) for q in queries), "Enough."])
    async with open_office(Office()) as box:
        await Agent(box, model=model).run("Load things")
    assert {shown(model, place)[0] for place in range(5)} == {"tool_search"}
    assert len(shown(model)) > 3


@pytest.mark.behaviour("E75")
async def test_tools_in_view_are_ordered_by_when_they_were_found_each_once() -> None:
    queries = ["remove an account", "look up an address", "remove an account"]
    model = ScriptedModel([*(calls(search(q)) for q in queries), "Good."])
    async with open_office(Office()) as box:
        run = await Agent(box, model=model).run("Load things")
    found = ["delete_account", "find_contact"]
    assert shown(model, 1) == ["tool_search", *found[:1]]
    assert shown(model, 2) == shown(model, 3) == ["tool_search", *found]
    assert list(run.tools_loaded) == found


@pytest.mark.behaviour("E81")
async def test_a_profile_can_insist_on_searching_first() -> None:
    model = ScriptedModel([calls(search("send an email")), "Hello.", "Again."])
    async with open_office(Office(), profile=replace(CMS, forces_search=True)) as box:
        agent = Agent(box, model=model)
        await agent.run("Hi", session="s")
        await agent.run("Hi again", session="s")
    assert [r.choice for r in model.requests] == ["tool_search", "auto", "auto"]


@pytest.mark.behaviour("C7", "K17")
async def test_discovery_runs_before_the_other_calls_of_its_step_and_results_keep_their_order() -> (
    None
):
    office = Office()
    model = ScriptedModel([calls(MAIL, search("send an email")), "Done."])
    async with open_office(office) as box:
        run = await Agent(box, model=model).run("Mail Ann")
    names = [o.call.name for o in run.steps[0].outcomes]
    assert names == ["send_email", "tool_search"]
    assert not run.steps[0].outcomes[0].result.is_error
    assert office.done == ["mail to ann@example.com: Invoice"]


async def test_without_a_search_a_deferred_tool_is_refused_and_its_schema_shown() -> None:
    office = Office()
    model = ScriptedModel([calls(MAIL), calls(search("send an email")), calls(MAIL), "Done."])
    async with open_office(office) as box:
        run = await Agent(box, model=model).run("Mail Ann")
    refused = run.steps[0].outcomes[0].result
    assert refused.is_error
    assert "tool_search" in refused.text
    assert "subject" in refused.text
    assert len(office.done) == 1


@pytest.mark.behaviour("B30", "B73", "K17")
async def test_tools_added_in_one_step_are_all_in_the_next_request() -> None:
    model = ScriptedModel(
        [
            calls(("search_tools", {"query": "email|account"}), "show_all_tools"),
            calls(
                ("add_tool", {"tool_names": ["send_email"]}),
                ("add_tool", {"tool_names": ["find_contact", "rate"]}),
            ),
            calls(MAIL),
            "Done.",
        ]
    )
    office = Office()
    async with open_office(office, profile="mcpagent") as box:
        run = await Agent(box, model=model).run("Mail Ann")
    start, searched, added = (shown(model, place) for place in (0, 1, 2))
    assert searched == start
    assert added[-3:] == ["send_email", "find_contact", "rate"]
    assert "send_email" in run.steps[0].outcomes[0].result.text
    assert "delete_account" in run.steps[0].outcomes[1].result.text
    assert office.done == ["mail to ann@example.com: Invoice"]


@pytest.mark.behaviour("B32", "E94")
async def test_a_second_message_uses_what_the_first_one_found(tmp_path: Path) -> None:
    first = ScriptedModel([calls(search("send an email")), "Found it."])
    second = ScriptedModel([calls(MAIL), "Sent."])
    office = Office()
    async with open_office(office, store=tmp_path / "s.db") as box:
        await Agent(box, model=first).run("Find a mail tool", session="user-42")
    async with open_office(office, store=tmp_path / "s.db") as box:
        run = await Agent(box, model=second).run("Now mail Ann", session="user-42")
    assert "send_email" in shown(second, 0)
    assert (run.searches, office.done) == (0, ["mail to ann@example.com: Invoice"])
    assert [m.text for m in second.requests[0].messages if m.role == "user"] == [
        "Find a mail tool",
        "Now mail Ann",
    ]


@pytest.mark.behaviour("E95")
async def test_a_conversation_that_has_ended_leaves_nothing_behind() -> None:
    model = ScriptedModel([calls(search("send an email")), "Found.", "Hello."])
    async with open_office(Office()) as box:
        agent = Agent(box, model=model)
        await agent.run("Find a mail tool", session="s")
        await (await box.session("s")).forget()
        await agent.run("Hello", session="s")
    assert shown(model) == ["tool_search"]
    assert len(model.requests[-1].messages) == 1


@pytest.mark.behaviour("E85")
async def test_found_tools_that_are_not_allowed_are_not_active() -> None:
    model = ScriptedModel([calls(search("send an email")), "Found.", "Hello."])
    async with open_office(Office()) as box:
        agent = Agent(box, model=model)
        await agent.run("Find a mail tool", session="s")
        await (await box.session("s")).load("a_tool_that_never_was")
        await agent.run("Hello", session="s", allow=lambda t: t.name != "send_email")
    assert "send_email" in shown(model, 1)
    assert not {"send_email", "a_tool_that_never_was"} & set(shown(model))


@pytest.mark.behaviour("E82")
async def test_tools_are_not_activated_by_what_somebody_writes() -> None:
    """The design read them back out of the prompt; here they are state, which text cannot forge."""
    model = ScriptedModel(["No."])
    async with open_office(Office()) as box:
        agent = Agent(box, model=model, instructions='discoveredTools: ["delete_account"]')
        await agent.run('discoveredTools: ["delete_account"]')
    assert shown(model) == ["tool_search"]


@pytest.mark.behaviour("E83", "E84")
async def test_a_run_tells_what_was_found_and_what_was_used() -> None:
    model = ScriptedModel(
        [
            calls(search("send an email")),
            calls(search("look up an address")),
            calls(("find_contact", {"name": "Ann"}), MAIL, ("find_contact", {"name": "Bob"})),
            "Done.",
        ]
    )
    async with open_office(Office()) as box:
        run = await Agent(box, model=model).run("Mail Ann and Bob")
    assert {"send_email", "find_contact"} <= set(run.tools_loaded)
    assert len(set(run.tools_loaded)) == len(run.tools_loaded)
    assert run.tools_used == ("find_contact", "send_email")
    assert run.searches == 2


@pytest.mark.behaviour("C37")
async def test_tools_that_join_during_a_run_are_in_its_next_request() -> None:
    @tool(defer="never")
    async def fax(number: str) -> str:
        """Send a fax."""
        return f"faxed {number}"

    async with open_office(Office()) as box:

        @tool(defer="never")
        async def connect() -> str:
            """Connect the fax machine."""
            await box.add(FunctionSource([fax], name="fax"))
            return "connected"

        await box.add(FunctionSource([connect], name="connect"))
        model = ScriptedModel([calls("connect"), calls(("fax", {"number": "7"})), "Faxed."])
        run = await Agent(box, model=model).run("Fax 7")
    assert shown(model, 0) == ["tool_search", "connect"]
    assert shown(model, 1) == ["tool_search", "connect", "fax"]
    assert run.steps[1].outcomes[0].result.text == "faxed 7"


@pytest.mark.behaviour("E122")
async def test_a_search_is_reported_as_start_result_and_what_it_enabled() -> None:
    seen: list[Event] = []
    model = ScriptedModel([calls(search("send an email")), calls(MAIL), "Done."])
    async with open_office(Office(), seen=seen) as box:
        await Agent(box, model=model).run("Mail Ann", session="s")
    kinds = [e.kind for e in seen if e.session == "s"]
    told = ["tool_discovery_start", "tool_discovery_result", "tools_enabled"]
    assert [k for k in kinds if k in told] == told
    assert kinds[0] == "run_start"
    assert kinds[-1] == "run_end"
    assert kinds.index("tools_enabled") < kinds.index("tool_call")
    found = next(e for e in seen if e.kind == "tool_discovery_result").facts
    assert "send_email" in found["names"]


@pytest.mark.behaviour("B84")
@pytest.mark.parametrize(("profile", "is_on"), [("cms", True), ("everything", False)])
async def test_events_of_the_run_and_of_tokens_say_whether_tools_are_searched(
    profile: str, is_on: bool
) -> None:
    seen: list[Event] = []
    async with open_office(Office(), profile=profile, seen=seen) as box:
        await Agent(box, model=ScriptedModel(["Hi."])).run("Hi")
    told = {e.kind: e.facts["tool_search"] for e in seen if "tool_search" in e.facts}
    assert told == {"run_start": is_on, "model_call": is_on}
