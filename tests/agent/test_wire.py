"""The loop through the real SDKs, against a service that refuses what the real ones refuse."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.agent.office import Agent, Office, open_office
from tests.models.conftest import CLIENTS
from tests.wire.server import Wire
from tests.wire.turns import Refuse, Say

from toolscout.agent.compaction import by_count
from toolscout.disclosure.matcher import load_all
from toolscout.disclosure.profile import NativeSearch
from toolscout.disclosure.profiles.default import DEFAULT
from toolscout.errors import ModelError
from toolscout.models.anthropic import AnthropicModel
from toolscout.models.model import Model
from toolscout.models.openai_responses import ResponsesModel
from toolscout.models.retry import Backoff

QUICK = Backoff(first_seconds=0.0)
NATIVE = replace(
    DEFAULT,
    surface="native",
    policy=replace(DEFAULT.policy, threshold=0, share=0.0),
    native=NativeSearch(by="us"),
    loading=load_all,
)
MAIL = ("send_email", '{"to": "ann@example.com", "subject": "Invoice"}')


@pytest.fixture(params=CLIENTS)
async def service(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Wire, Model]]:
    client, path = CLIENTS[request.param]
    async with Wire() as wire:
        model = client("test-model", api_key="k", base_url=wire.url + path)
        yield wire, model
        await model.close()


async def test_a_tool_is_found_and_used_through_every_provider(
    service: tuple[Wire, Model],
) -> None:
    wire, model = service
    wire.then(
        Say("Let me look.", calls=(("tool_search", '{"query": "send an email"}'),)),
        Say(calls=(MAIL, ("tool_search", '{"query": "exchange rate now"}'))),
        Say("It is sent."),
    )
    office = Office()
    async with open_office(office) as box:
        run = await Agent(box, model=model).run("Mail the invoice to Ann")
    assert (run.text, run.stopped_by) == ("It is sent.", "answer")
    assert office.done == ["mail to ann@example.com: Invoice"]
    first, second = (json.dumps(seen.body["tools"]) for seen in wire.seen[:2])
    assert "send_email" not in first
    assert "send_email" in second
    assert run.usage.input_tokens == 300


async def test_conversations_are_cut_so_that_every_provider_takes_them(
    service: tuple[Wire, Model],
) -> None:
    """The service answers 400 to a call without its result, so coming through proves it."""
    wire, model = service
    office = Office()
    async with open_office(office, profile="everything") as box:
        agent = Agent(box, model=model, compactor=by_count(after=6, keep=3))
        for number in range(8):
            name = json.dumps({"name": f"p{number}"})
            wire.then(Say(calls=(("find_contact", name), ("find_contact", name))), Say("Found."))
            run = await agent.run(f"Look up p{number}", session="s")
            assert run.text == "Found."
    assert len(office.done) == 16
    assert len(wire.seen) == 16


async def test_transient_failures_are_waited_for_and_others_reported(
    service: tuple[Wire, Model],
) -> None:
    wire, model = service
    wire.then(
        Refuse(429, "slow down"),
        Say("Half a", cut_after=2),
        Refuse(500, "hiccup", in_stream=True),
        Say("Here I am."),
        Refuse(401, "who are you"),
        Say("Still here."),
    )
    async with open_office(Office()) as box:
        agent = Agent(box, model=model, backoff=QUICK)
        assert (await agent.run("Hi", session="s")).text == "Here I am."
        with pytest.raises(ModelError, match="who are you"):
            await agent.run("Hi again", session="s")
        assert (await agent.run("And now?", session="s")).text == "Still here."


async def test_broken_arguments_are_reported_and_the_next_try_is_accepted(
    service: tuple[Wire, Model],
) -> None:
    wire, model = service
    if model.provider == "gemini":
        wire.then(Say(stop="MALFORMED_FUNCTION_CALL"), Say(calls=(MAIL,)), Say("Sent."))
    else:
        wire.then(Say(calls=(("send_email", '{"to": "an'),)), Say(calls=(MAIL,)), Say("Sent."))
    office = Office()
    async with open_office(office, profile="everything") as box:
        run = await Agent(box, model=model, backoff=QUICK).run("Mail Ann")
    assert (run.text, len(office.done)) == ("Sent.", 1)


@pytest.mark.parametrize(
    "subject",
    ['"\\ud83d"', '"\\ude00 \\ud83d\\ude00"', "NaN", "1e999"],
    ids=["half a pair", "a half and a pair", "no number", "beyond all bounds"],
)
async def test_arguments_that_json_cannot_encode_leave_the_conversation_usable(
    service: tuple[Wire, Model], subject: str
) -> None:
    wire, model = service
    mail = ("send_email", f'{{"to": "ann", "subject": {subject}}}')
    wire.then(Say(calls=(mail,)), Say("Sent."), Say("Still here."))
    async with open_office(Office(), profile="everything") as box:
        agent = Agent(box, model=model, backoff=QUICK)
        assert (await agent.run("Mail Ann", session="s")).text == "Sent."
        assert (await agent.run("Are you there?", session="s")).text == "Still here."
    sent = json.dumps(wire.seen[-1].body, ensure_ascii=False)
    assert sent.encode()
    assert "NaN" not in sent or "unreadable" in sent


async def test_a_request_that_cannot_be_encoded_is_reported_as_such_and_not_retried(
    service: tuple[Wire, Model],
) -> None:
    wire, model = service
    wire.then(Say("Read."))
    async with open_office(Office()) as box:
        agent = Agent(box, model=model, instructions="Half \ud83d", backoff=QUICK)
        if model.provider == "gemini":  # whose SDK writes escapes
            assert (await agent.run("Hi")).text == "Read."
            return
        with pytest.raises(ModelError, match="cannot be encoded") as caught:
            await agent.run("Hi")
    assert not caught.value.is_transient
    assert wire.seen == []


async def test_claude_loads_what_our_search_finds_by_reference() -> None:
    office = Office()
    async with Wire() as wire, open_office(office, profile=NATIVE) as box:
        model = AnthropicModel(
            "claude-opus-4-5", api_key="k", base_url=wire.url, transport="direct"
        )
        wire.then(
            Say(calls=(("tool_search", '{"query": "send an email"}'),)),
            Say(calls=(MAIL,)),
            Say("Sent."),
        )
        run = await Agent(box, model=model).run("Mail Ann")
        await model.close()
    assert (run.text, len(office.done)) == ("Sent.", 1)
    before, after = (seen.body["tools"] for seen in wire.seen[:2])
    assert [t["name"] for t in before] == ["tool_search"]
    assert after[:1] == before
    assert all(t["defer_loading"] for t in after[1:])
    references = wire.seen[1].body["messages"][-1]["content"][0]["content"]
    assert {"type": "tool_reference", "tool_name": "send_email"} in references
    assert [r["tool_name"] for r in references] == [t["name"] for t in after[1:]]


async def test_gpt_loads_what_our_search_finds_by_definition() -> None:
    called = {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": "call_s",
        "execution": "client",
        "status": "completed",
        "arguments": {"query": "send an email"},
    }
    office = Office()
    async with Wire() as wire, open_office(office, profile=NATIVE) as box:
        model = ResponsesModel(
            "gpt-5.4", api_key="k", base_url=f"{wire.url}/v1", transport="direct"
        )
        wire.then(Say(natives=(called,)), Say(calls=(MAIL,)), Say("Sent."))
        run = await Agent(box, model=model).run("Mail Ann")
        await model.close()
    assert (run.text, len(office.done), run.searches) == ("Sent.", 1, 1)
    assert wire.seen[1].body["tools"] == wire.seen[0].body["tools"]
    output = wire.seen[1].body["input"][2]
    assert (output["type"], output["call_id"]) == ("tool_search_output", "call_s")
    assert "send_email" in [tool["name"] for tool in output["tools"]]


async def test_claude_s_own_search_and_what_it_finds_pass_through_the_loop() -> None:
    found = (
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "tool_search_tool_bm25",
            "input": {"query": "send an email"},
        },
        {
            "type": "tool_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {
                "type": "tool_search_tool_search_result",
                "tool_references": [{"type": "tool_reference", "tool_name": "send_email"}],
            },
        },
    )
    office = Office()
    hosted = replace(NATIVE, native=NativeSearch(by="provider"))
    async with Wire() as wire, open_office(office, profile=hosted) as box:
        model = AnthropicModel(
            "claude-opus-4-5", api_key="k", base_url=wire.url, transport="direct"
        )
        wire.then(Say(natives=found, calls=(MAIL,)), Say("Sent."))
        run = await Agent(box, model=model).run("Mail Ann")
        await model.close()
    assert (run.text, len(office.done)) == ("Sent.", 1)
    first = wire.seen[0].body["tools"]
    assert first[0]["name"] == "tool_search_tool_bm25"
    assert all(tool["defer_loading"] for tool in first[1:])
    assert wire.seen[1].body["messages"][1]["content"][:2] == [*found]


async def test_gpt_s_own_search_and_calls_in_a_namespace_pass_through_the_loop() -> None:
    called = {
        "type": "tool_search_call",
        "id": "tsc_1",
        "execution": "server",
        "status": "completed",
        "call_id": None,
        "arguments": {"paths": ["mail"]},
    }
    in_mail = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": MAIL[0],
        "arguments": MAIL[1],
        "namespace": "mail",
        "status": "completed",
    }
    office = Office()
    hosted = replace(NATIVE, native=NativeSearch(by="provider"))
    async with Wire() as wire, open_office(office, profile=hosted) as box:
        model = ResponsesModel(
            "gpt-5.4", api_key="k", base_url=f"{wire.url}/v1", transport="direct"
        )
        wire.then(Say(natives=(called, in_mail)), Say("Sent."))
        run = await Agent(box, model=model).run("Mail Ann")
        await model.close()
    assert (run.text, len(office.done)) == ("Sent.", 1)
    tools = wire.seen[0].body["tools"]
    assert "mail" in [t["name"] for t in tools if t["type"] == "namespace"]
    assert tools[-1] == {"type": "tool_search"}
    search, call, output = wire.seen[1].body["input"][1:]
    assert search == called
    assert (call["namespace"], call["id"]) == ("mail", "fc_1")
    assert output["call_id"] == "call_1"
