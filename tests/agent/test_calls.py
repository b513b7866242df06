"""What becomes of calls: good ones, wrong ones, far too many."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.agent.office import Agent, Office, calls, open_office, shown

from toolscout.agent.hooks import Hooks
from toolscout.agent.steps import RunLimits, RunProgress
from toolscout.agent.stop_conditions import on_call
from toolscout.catalog.result import Result
from toolscout.catalog.tool import Annotations, Tool
from toolscout.events import Event
from toolscout.models.messages import Call
from toolscout.models.model import ModelRequest
from toolscout.models.scripted import ScriptedCall, ScriptedModel, Turn
from toolscout.offload.limits import OffloadLimits as Sizes
from toolscout.offload.result_store import ResultStore
from toolscout.search.engine import Engine
from toolscout.sources.functions import FunctionSource, tool
from toolscout.toolbox.permissions import ApprovalDecision, ApprovalRequest
from toolscout.toolbox.toolbox import Toolbox

EVERYTHING = "everything"


@pytest.mark.behaviour("B75", "E130", "E132", "S21")
async def test_an_unknown_tool_is_reported_to_the_model_and_the_run_continues() -> None:
    seen: list[Event] = []
    model = ScriptedModel([calls("send_emial"), "Sorry."])
    async with open_office(Office(), profile=EVERYTHING, seen=seen) as box:
        run = await Agent(box, model=model).run("Mail Ann")
    answer = model.requests[1].messages[-1].results[0].result
    assert answer.is_error
    assert answer.code == "unknown_tool"
    assert "send_emial" in answer.text
    assert "send_email" in answer.text
    assert run.stopped_by == "answer"
    assert [e.facts["tool"] for e in seen if e.kind == "tool_not_found"] == ["send_emial"]


@pytest.mark.behaviour("E130", "E132")
@pytest.mark.parametrize(
    "arguments", [{"to": "x"}, {"to": "x", "subject": [1]}, '{"to": "x", "sub', "[1, 2]", '"hi"']
)
async def test_arguments_that_do_not_fit_are_another_error_and_the_schema_comes_along(
    arguments: object,
) -> None:
    office = Office()
    model = ScriptedModel(
        [
            calls(("send_email", arguments)),
            calls(("send_email", {"to": "a", "subject": "b"})),
            "Ok.",
        ]
    )
    async with open_office(office, profile=EVERYTHING) as box:
        run = await Agent(box, model=model).run("Mail Ann")
    answer = run.steps[0].outcomes[0].result
    assert (answer.is_error, answer.code) == (True, "invalid_arguments")
    assert office.done == ["mail to a: b"]


@pytest.mark.behaviour("B74", "S24")
@pytest.mark.parametrize(
    ("name", "words"),
    [("nothing", "returned nothing"), ("strange", "when"), ("rate", "1.1"), ("fail", "on fire")],
)
async def test_whatever_a_tool_does_the_model_gets_text(name: str, words: str) -> None:
    model = ScriptedModel([calls(name), "Ok."])
    async with open_office(Office(), profile=EVERYTHING) as box:
        run = await Agent(box, model=model).run("Go")
    assert words in run.steps[0].outcomes[0].result.text
    assert run.steps[0].outcomes[0].result.is_error is (name == "fail")


async def test_calls_of_one_step_run_side_by_side() -> None:
    """Each waits for the two others, so they finish only if they run at once."""
    model = ScriptedModel([calls(*(("meet", {"who": w}) for w in "abc")), "Met."])
    async with open_office(Office(), profile=EVERYTHING) as box:
        run = await Agent(box, model=model).run("Meet")
    assert [r.result.text for r in run.steps[0].outcomes] == ["a met", "b met", "c met"]


async def test_a_tool_that_hangs_is_stopped_and_reported() -> None:
    model = ScriptedModel([calls("hang"), "It hangs."])
    async with open_office(Office(), profile=EVERYTHING, timeout=0.02) as box:
        run = await Agent(box, model=model).run("Go")
    answer = run.steps[0].outcomes[0].result
    assert (answer.is_error, answer.code, run.text) == (True, "timeout", "It hangs.")


async def test_of_a_thousand_calls_in_one_step_the_first_few_run_and_all_are_answered() -> None:
    office = Office()
    many = calls(*(("find_contact", {"name": f"p{i}"}) for i in range(1_000)))
    model = ScriptedModel([many, "Enough."])
    async with open_office(office, profile=EVERYTHING) as box:
        run = await Agent(box, model=model).run("Look everybody up")
    results = model.requests[1].messages[-1].results
    assert len(results) == 1_000
    assert len(office.done) == RunLimits().calls
    assert "at most 64" in results[-1].result.text
    assert run.text == "Enough."


async def test_an_argument_of_five_megabytes_is_refused_and_not_sent_back() -> None:
    office = Office()
    huge = {"to": "a", "subject": "x" * 5_000_000}
    model = ScriptedModel([calls(("send_email", huge)), "Too much."])
    async with open_office(office, profile=EVERYTHING) as box:
        run = await Agent(box, model=model).run("Mail Ann", session="s")
        kept = (await box.session("s")).state.to_json()
    assert run.steps[0].outcomes[0].result.code == "invalid_arguments"
    assert office.done == []
    assert len(model.requests[1].messages[1].calls[0].arguments) < 1_000
    assert len(kept) < 100_000


async def test_arguments_cut_off_by_the_token_limit_are_reported_as_unreadable() -> None:
    cut = Turn(calls=(ScriptedCall("send_email", '{"to": "ann@ex'),), reason="length")
    model = ScriptedModel([cut, "Again."])
    async with open_office(Office(), profile=EVERYTHING) as box:
        run = await Agent(box, model=model).run("Mail Ann")
    assert "not JSON" in run.steps[0].outcomes[0].result.text


@pytest.mark.behaviour("S20")
async def test_without_anybody_to_ask_destructive_tools_are_refused_not_run() -> None:
    office = Office()
    model = ScriptedModel(
        [calls(("delete_account", {"name": "bob"}), ("announce", {"text": "hi"})), "I may not."]
    )
    async with open_office(office, profile=EVERYTHING) as box:
        run = await Agent(box, model=model).run("Delete Bob")
    assert [r.result.code for r in run.steps[0].outcomes] == ["refused", "refused"]
    assert "approval" in run.steps[0].outcomes[0].result.text
    assert office.done == []


@pytest.mark.behaviour("S20", "S21")
async def test_the_approver_sees_the_real_call_and_a_refusal_is_reported() -> None:
    asked: list[ApprovalRequest] = []
    seen: list[Event] = []

    async def approver(approval: ApprovalRequest) -> ApprovalDecision:
        asked.append(approval)
        return ApprovalDecision(approval.arguments["name"] == "bob", "only Bob may go")

    office = Office()
    delete = [("delete_account", {"name": n}) for n in ("bob", "ann")]
    model = ScriptedModel([calls(*delete), "Bob is gone, Ann stays."])
    async with open_office(office, profile=EVERYTHING, seen=seen) as box:
        run = await Agent(box, model=model, approver=approver).run("Delete them", session="s")
    assert office.done == ["deleted bob"]
    assert {(a.tool.name, a.arguments["name"], a.session) for a in asked} == {
        ("delete_account", "bob", "s"),
        ("delete_account", "ann", "s"),
    }
    assert "only Bob may go" in run.steps[0].outcomes[1].result.text
    assert sorted(e.facts["approved"] for e in seen if e.kind == "approval") == [False, True]


@pytest.mark.behaviour("S20")
async def test_a_call_through_the_dispatcher_is_approved_as_the_tool_it_stands_for() -> None:
    asked: list[str] = []

    async def approver(approval: ApprovalRequest) -> bool:
        asked.append(approval.tool.name)
        return True

    office = Office()
    inner = {"name": "delete_account", "arguments": {"name": "bob"}}
    model = ScriptedModel([calls(("call_tool", inner)), "Gone."])
    async with open_office(office, profile="default") as box:
        await Agent(box, model=model, approver=approver).run("Delete Bob")
    assert (asked, office.done) == (["delete_account"], ["deleted bob"])


@pytest.mark.behaviour("S20")
async def test_rules_of_a_run_see_a_call_through_the_dispatcher_as_the_tool_it_stands_for() -> None:
    """Stops, hooks and records go by the inner tool; the model hears of the one it called."""
    seen: list[tuple[str, object]] = []

    async def before_call(call: Call, _: RunProgress) -> Call | None:
        seen.append((call.name, call.values()))
        if call.name != "send_email":
            return None
        return replace(call, arguments='{"to": "ann", "subject": "Mended"}')

    def through(name: str, arguments: object) -> tuple[str, object]:
        return "call_tool", {"name": name, "arguments": arguments}

    office = Office()
    mail = {"to": "ann", "subject": "Hi"}
    model = ScriptedModel(
        [
            calls(
                through("send_email", mail),
                through("find_contact", '{"name": "Bob"}'),
                through("find_contact", 5),
            ),
            calls(through("final_answer", {"answer": "42"})),
        ]
    )
    async with open_office(office, profile="default") as box:
        agent = Agent(
            box, model=model, stops=[on_call("final_answer")], hooks=Hooks(before_call=before_call)
        )
        run = await agent.run("Mail Ann")
    assert seen[:2] == [("send_email", mail), ("find_contact", {"name": "Bob"})]
    assert sorted(office.done) == ["looked up Bob", "mail to ann: Mended"]
    assert "arguments must be an object" in run.steps[0].outcomes[2].result.text
    assert run.tools_used == ("send_email", "find_contact", "final_answer")
    assert (run.stopped_by, run.text) == ("the call of final_answer", "42")
    assert {r.name for m in run.messages for r in m.results} == {"call_tool"}


async def test_a_tool_keeps_its_own_threshold_through_the_dispatcher(tmp_path: Path) -> None:
    @tool
    def export_all() -> str:
        """Export everything there is."""
        return "word " * 20_000

    through = ("call_tool", {"name": "export_all", "arguments": {}})
    for thresholds, is_whole in (({"export_all": None}, True), ({}, False)):
        model = ScriptedModel([calls(through), "Done."])
        result_store = ResultStore(tmp_path, limits=Sizes(thresholds=thresholds))
        async with Toolbox(
            [export_all], store="memory", engine=Engine(), offload=result_store
        ) as box:
            run = await Agent(box, model=model).run("Export")
        assert (run.steps[0].outcomes[0].result.text == "word " * 20_000) == is_whole


@pytest.mark.behaviour("S20")
async def test_a_server_s_own_warning_counts_like_the_owner_s() -> None:
    class Server:
        name = "files"

        async def tools(self) -> list[Tool]:
            return [Tool(name="wipe", annotations=Annotations(destructive=True, read_only=False))]

        async def call(self, tool: Tool, arguments: object) -> Result:
            return Result.of("wiped")

        async def close(self) -> None: ...

    model = ScriptedModel([calls("wipe"), "No."])
    async with open_office(Office(), profile=EVERYTHING) as box:
        await box.add(Server())
        run = await Agent(box, model=model).run("Wipe it")
    assert run.steps[0].outcomes[0].result.code == "refused"


@pytest.mark.behaviour("E74", "E75", "E130")
async def test_a_hook_can_change_view_instructions_and_choice_of_every_request() -> None:
    numbers: list[int] = []

    async def before(request: ModelRequest, progress: RunProgress) -> ModelRequest | None:
        numbers.append(progress.number)
        if progress.number:
            return None
        return replace(request, tools=request.tools[:1], instructions="Be brief.", choice="none")

    model = ScriptedModel([calls("rate"), "Ok."])
    async with open_office(Office(), profile=EVERYTHING) as box:
        agent = Agent(box, model=model, hooks=Hooks(before_model=before), instructions="Base.")
        await agent.run("Go")
    assert (model.requests[0].instructions, model.requests[0].choice) == ("Be brief.", "none")
    assert len(shown(model, 0)) == 1
    assert len(shown(model, 1)) > 5
    assert model.requests[1].instructions.startswith("Base.")
    assert numbers == [0, 1]


@pytest.mark.behaviour("S12")
async def test_a_hook_can_tell_how_to_use_the_tools_in_view_and_only_those() -> None:
    @tool(category="fax", phrases=["send a fax"], usage="Dial 0 first.")
    async def fax(number: str) -> str:
        """Send a fax."""
        return "faxed"

    async with open_office(Office(), profile="cms") as box:
        await box.add(FunctionSource([fax], name="fax"))

        async def brief(request: ModelRequest, progress: RunProgress) -> ModelRequest:
            active = [box.catalog.get(t["name"]) for t in request.tools]
            usage = "\n".join(f"{t.name}: {t.usage}" for t in active if t and t.usage)
            return replace(request, instructions=f"{request.instructions}\n{usage}")

        model = ScriptedModel([calls(("tool_search", {"query": "send a fax"})), "Ready."])
        await Agent(box, model=model, hooks=Hooks(before_model=brief)).run("Fax it")
    assert ["Dial 0 first." in r.instructions for r in model.requests] == [False, True]


@pytest.mark.behaviour("E130", "E132")
async def test_hooks_can_correct_a_call_answer_it_and_change_its_result() -> None:
    async def before(call: Call, progress: RunProgress) -> Call | Result | None:
        match call.name:
            case "mail":
                return Call(call.id, "send_email", call.arguments)
            case "rate":
                return Result.of("frozen")
            case _:
                return None

    async def after(call: Call, result: Result) -> Result | None:
        return Result.of(f"[{result.text}]") if call.name == "send_email" else None

    office = Office()
    turn = calls(("mail", {"to": "a", "subject": "b"}), "rate", ("find_contact", {"name": "X"}))
    model = ScriptedModel([turn, "Ok."])
    async with open_office(office, profile=EVERYTHING) as box:
        agent = Agent(box, model=model, hooks=Hooks(before_call=before, after_call=after))
        run = await agent.run("Go")
    assert [r.result.text for r in run.steps[0].outcomes[:2]] == ["[sent to a]", "frozen"]
    assert office.done == ["mail to a: b", "looked up X"]
    assert next(office.rates) == "1.1"
    results = model.requests[1].messages[-1].results
    assert [r.name for r in results] == ["mail", "rate", "find_contact"]


async def test_an_exception_of_a_hook_ends_the_run_and_the_conversation_stays_complete() -> None:
    async def before(call: Call, progress: RunProgress) -> None:
        if call.name == "rate":
            message = "no rates today"
            raise LookupError(message)

    model = ScriptedModel([calls("rate", ("find_contact", {"name": "X"})), "Later.", "Fine."])
    async with open_office(Office(), profile=EVERYTHING) as box:
        agent = Agent(box, model=model, hooks=Hooks(before_call=before))
        with pytest.raises(LookupError, match="no rates today"):
            await agent.run("Go", session="s")
        await agent.run("And now?", session="s")
    messages = model.requests[1].messages
    assert [c.id for c in messages[1].calls] == [r.id for r in messages[2].results]


async def test_no_more_calls_run_at_a_time_than_allowed() -> None:
    running = 0
    most = 0

    async def before(call: Call, progress: RunProgress) -> Result:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return Result.of("ok")

    model = ScriptedModel([calls(*["rate"] * 12), "Ok."])
    async with open_office(Office(), profile=EVERYTHING) as box:
        agent = Agent(
            box, model=model, hooks=Hooks(before_call=before), limits=RunLimits(parallel=3)
        )
        await agent.run("Go")
    assert most == 3


async def test_results_go_back_under_the_names_the_model_used() -> None:
    """Long or odd names are shortened for a provider; the model must see its own again."""
    name = "a.very long name / with odd characters in it, much longer than sixty-four of them"

    @tool(name=name)
    async def odd() -> str:
        """Something odd."""
        return "odd indeed"

    async with open_office(Office(), profile=EVERYTHING) as box:
        await box.add(FunctionSource([odd], name="odd"))
        model = ScriptedModel(
            [lambda request: calls(request.tools[-1]["name"]), "Ok."], provider="anthropic"
        )
        run = await Agent(box, model=model).run("Go")
    wire = model.requests[1].messages[-1].results[0].name
    assert len(wire) <= 64
    assert run.steps[0].outcomes[0].result.text == "odd indeed"
    assert run.tools_used[0] != wire
    assert json.dumps(wire).isascii()


async def test_used_are_the_tools_that_ran_and_no_call_that_did_not() -> None:
    async def before_call(call: Call, _: RunProgress) -> Result | None:
        return Result.of("from the program") if call.name == "strange" else None

    async def after_call(_: Call, result: Result) -> Result:
        return Result.of(f"retold: {result.text}")

    model = ScriptedModel(
        [
            calls(
                ("send_emial", {"to": "a"}),
                ("send_email", {"to": "a"}),
                ("find_contact", '{"name": '),
                ("delete_account", {"name": "Ann"}),
                "strange",
                "fail",
                "rate",
            ),
            "Done.",
        ]
    )
    hooks = Hooks(before_call=before_call, after_call=after_call)
    async with open_office(Office(), profile="everything") as box:
        run = await Agent(box, model=model, hooks=hooks).run("Go")
    assert run.tools_used == ("fail", "rate")
    assert [o.is_run for o in run.steps[0].outcomes] == [False] * 5 + [True] * 2


async def test_a_call_that_was_broken_off_counts_as_used_since_it_may_have_had_an_effect() -> None:
    model = ScriptedModel([calls("hang")])
    async with open_office(Office(), profile="everything") as box:
        run = await Agent(box, model=model, limits=RunLimits(seconds=0.2)).run("Go")
    assert run.stopped_by == "a limit of 0.2 seconds"
    assert run.tools_used == ("hang",)
