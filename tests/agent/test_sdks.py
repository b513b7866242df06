"""Loops over the official SDKs, in which `session.answer` runs what the model called."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from tests import wire as forms
from tests.agent import typed
from tests.agent.office import Office, open_office
from tests.wire.server import Wire
from tests.wire.turns import Say

from toolscout import Session, Toolbox, ToolscoutError
from toolscout.catalog.result import Content, Result
from toolscout.disclosure.profiles.default import DEFAULT

PROJECT = Path(__file__).parents[2]
SEARCH = ("tool_search", '{"query": "send an email"}')
MAIL = ("send_email", '{"to": "ann@example.com", "subject": "Invoice"}')
ASK = "Mail the invoice to Ann"
HIDING = replace(DEFAULT, policy=replace(DEFAULT.policy, threshold=0, share=0.0))
PIXEL = "iVBORw0KGgo="

Loop = Callable[[Wire, Session], Awaitable[Any]]


def shown(page: str, sdk: str) -> Callable[..., Awaitable[Any]]:
    """The loop that a page shows, without the program around it."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (PROJECT / page).read_text(), re.M | re.S)
    code = next(b for b in blocks if "async def ask(" in b and sdk in b)
    names: dict[str, Any] = {}
    exec(code.replace("asyncio.run(main())", ""), names)
    return names["ask"]


async def claude(wire: Wire, session: Session) -> Any:
    ask = shown("docs/quickstart-library.md", "AsyncAnthropic")
    async with anthropic.AsyncAnthropic(api_key="k", base_url=wire.url) as client:
        return await ask(client, session, [{"role": "user", "content": ASK}])


async def gpt(wire: Wire, session: Session) -> Any:
    ask = shown("docs/quickstart-library.md", "AsyncOpenAI")
    async with openai.AsyncOpenAI(api_key="k", base_url=f"{wire.url}/v1") as client:
        return await ask(client, session, [{"role": "user", "content": ASK}])


async def messages(wire: Wire, session: Session) -> Any:
    async with anthropic.AsyncAnthropic(api_key="k", base_url=wire.url) as client:
        return await typed.messages(client, session, ASK)


async def responses(wire: Wire, session: Session) -> Any:
    async with openai.AsyncOpenAI(api_key="k", base_url=f"{wire.url}/v1") as client:
        return await typed.responses(client, session, ASK)


async def chat(wire: Wire, session: Session) -> Any:
    async with openai.AsyncOpenAI(api_key="k", base_url=f"{wire.url}/v1") as client:
        return await typed.chat(client, session, ASK)


async def gemini(wire: Wire, session: Session) -> Any:
    said: list[Any] = [{"role": "user", "parts": [{"text": ASK}]}]
    client = genai.Client(api_key="k", http_options={"base_url": wire.url})
    try:
        while True:
            view = session.view(model="gemini-2.5-pro")
            config: Any = {"system_instruction": view.instructions, "tools": view.tools}
            response = await client.aio.models.generate_content(
                model="gemini-2.5-pro", contents=said, config=config
            )
            more = await session.answer(response)
            if not more:
                return response
            said += more
    finally:
        await client.aio.aclose()


LOOPS: dict[str, Loop] = {
    "messages": messages,
    "responses": responses,
    "chat": chat,
    "gemini": gemini,
}

DICTIONARIES: dict[str, tuple[ModuleType, dict[str, Any]]] = {
    "messages": (forms.anthropic, {}),
    "responses": (forms.responses, {"input": []}),
    "chat": (forms.chat, {"messages": []}),
    "gemini": (forms.gemini, {}),
}


@pytest.mark.parametrize("api", LOOPS)
async def test_a_tool_is_found_and_used_by_a_loop_over_an_sdk(api: str) -> None:
    """The service refuses a call without its result, so coming through proves the form."""
    office = Office()
    async with Wire() as wire, open_office(office) as box:
        wire.then(Say("Let me look.", calls=(SEARCH,)), Say(calls=(MAIL, MAIL)), Say("Sent."))
        last = await LOOPS[api](wire, await box.session("s"))
    assert "Sent." in str(last)
    assert office.done == ["mail to ann@example.com: Invoice"] * 2
    before, after = (json.dumps(seen.body["tools"]) for seen in wire.seen[:2])
    assert "send_email" not in before
    assert "send_email" in after
    assert "Let me look." in json.dumps(wire.seen[1].body)


async def test_claude_gets_what_a_search_found_by_reference() -> None:
    office = Office()
    async with Wire() as wire, open_office(office, profile=HIDING) as box:
        wire.then(Say(calls=(SEARCH,)), Say(calls=(MAIL,)), Say("Sent."))
        await claude(wire, await box.session("s"))
    assert office.done == ["mail to ann@example.com: Invoice"]
    sent = wire.seen[1].body
    waiting = [t["name"] for t in sent["tools"] if t.get("defer_loading")]
    (found, *_) = sent["messages"][-1]["content"]
    assert [b["tool_name"] for b in found["content"]] == waiting
    assert "send_email" in waiting


async def test_gpt_s_search_is_run_and_answered_with_definitions() -> None:
    called = {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": "call_s",
        "execution": "client",
        "status": "completed",
        "arguments": {"query": "send an email"},
    }
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"}
    office = Office()
    async with Wire() as wire, open_office(office, profile=HIDING) as box:
        wire.then(Say(natives=(thought, called)), Say(calls=(MAIL,)), Say("Sent."))
        await gpt(wire, await box.session("s"))
    assert office.done == ["mail to ann@example.com: Invoice"]
    _, again, search, output, *_ = wire.seen[1].body["input"]
    assert again == thought
    assert search["call_id"] == output["call_id"] == "call_s"
    assert output["type"] == "tool_search_output"
    assert "send_email" in [tool["name"] for tool in output["tools"]]
    assert wire.seen[1].body["tools"] == wire.seen[0].body["tools"]


@pytest.mark.parametrize("api", LOOPS)
async def test_images_and_errors_come_in_the_form_of_the_api(api: str) -> None:
    def draw() -> Result:
        """Draw a picture."""
        picture = Content(type="image", data=PIXEL, mime="image/png")
        return Result(content=(Content(text="A dot."), picture))

    async with Wire() as wire, Toolbox([draw], store="memory") as box:
        wire.then(Say(calls=(("draw", "{}"), ("drew", "{}"))), Say("Done."))
        await LOOPS[api](wire, await box.session("s"))
    sent = wire.seen[1].body
    match api:
        case "messages":
            drawn, failed = sent["messages"][-1]["content"]
            assert drawn["content"][1]["source"]["data"] == PIXEL
            assert (failed["is_error"], "is_error" in drawn) == (True, False)
        case "responses":
            drawn, failed = sent["input"][-2:]
            assert PIXEL in drawn["output"][1]["image_url"]
            assert failed["output"].startswith("Error: ")
        case "chat":
            drawn, failed = sent["messages"][-2:]
            assert "not shown" in drawn["content"]
            assert failed["content"].startswith("Error: ")
        case _:
            drawn, failed = (p["functionResponse"] for p in sent["contents"][-1]["parts"])
            assert PIXEL in json.dumps(drawn["parts"])
            assert "error" in failed["response"]


@pytest.mark.parametrize("api", LOOPS)
async def test_half_a_character_that_a_model_wrote_does_not_end_the_loop(api: str) -> None:
    broken = ("send_email", '{"to": "ann", "subject": "\\ud83d"}')
    office = Office()
    async with Wire() as wire, open_office(office, profile="everything") as box:
        wire.then(Say(calls=(broken,)), Say("Sent."))
        await LOOPS[api](wire, await box.session("s"))
    assert office.done == ["mail to ann: \ufffd"]


async def test_a_reply_may_be_its_dictionary_and_come_to_a_session_that_has_shown_nothing() -> None:
    """As after a restart between a request and its answer."""
    call = {"type": "tool_use", "id": "toolu_1", "name": SEARCH[0], "input": json.loads(SEARCH[1])}
    reply = {"type": "message", "model": "claude-opus-4-5", "content": [call], "stop_reason": ""}
    async with open_office(Office(), profile=HIDING) as box:
        mine, results = await (await box.session("s")).answer(reply)
    assert mine == {"role": "assistant", "content": [call]}
    assert results["content"][0]["content"][0]["type"] == "tool_reference"


@pytest.mark.parametrize("api", LOOPS)
async def test_the_dictionary_of_a_reply_is_as_good_as_its_object(api: str) -> None:
    dialect, body = DICTIONARIES[api]
    office = Office()
    async with open_office(office, profile="everything") as box:
        more = await (await box.session("s")).answer(dialect.whole(Say(calls=(MAIL,)), body))
    assert office.done == ["mail to ann@example.com: Invoice"]
    assert len(more) == 2
    assert "sent to ann@example.com" in json.dumps(more[1])


async def test_a_reply_without_a_call_is_the_answer() -> None:
    said = {"choices": [{"message": {"role": "assistant", "content": "Hello."}}]}
    async with open_office(Office()) as box:
        session = await box.session("s")
        assert await session.answer(said) == []
        assert await session.answer({"choices": []}) == []


@pytest.mark.parametrize("response", [None, "Hello.", {}, {"role": "assistant"}])
async def test_an_invalid_reply_is_refused_with_what_to_give(response: Any) -> None:
    async with open_office(Office()) as box:
        session = await box.session("s")
        with pytest.raises(ToolscoutError, match="Give the whole response"):
            await session.answer(response)
