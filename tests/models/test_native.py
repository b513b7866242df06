"""What is each provider's own: hosted tool search, thinking, odd habits of compatible servers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.models.conftest import Service
from tests.wire.turns import Refuse, Say

from toolscout.catalog.result import Content, Result
from toolscout.errors import ModelError
from toolscout.models.deltas import ThoughtDelta, collect
from toolscout.models.messages import (
    Call,
    CallResult,
    Message,
    NativeBlock,
    results_message,
    user_message,
)
from toolscout.models.model import ModelRequest, complete

ASK = ModelRequest(messages=(user_message("weather in Kraków?"),))
DEFERRED = {"name": "get_weather", "input_schema": {"type": "object"}, "defer_loading": True}
HOSTED: tuple[dict[str, Any], ...] = (
    {"type": "thinking", "thinking": "I need a tool for weather.", "signature": "c2ln"},
    {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "tool_search_tool_bm25",
        "input": {"query": "weather"},
    },
    {
        "type": "tool_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "get_weather"}],
        },
    },
)


async def test_anthropic_s_own_search_passes_through_and_back_word_for_word(
    anthropic: Service,
) -> None:
    anthropic.wire.then(Say(natives=HOSTED, calls=(("get_weather", "{}"),)), Say("Sunny."))
    search = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    tools = (search, DEFERRED)
    first = await complete(anthropic.model, ModelRequest(messages=ASK.messages, tools=tools))
    assert [p.type for p in first.message.parts] == ["native", "native", "native", "call"]
    assert first.message.calls[0].name == "get_weather"

    result = results_message(CallResult(first.message.calls[0].id, "get_weather", Result.of("sun")))
    history = (*ASK.messages, first.message, result)
    await complete(anthropic.model, ModelRequest(messages=history, tools=tools))
    blocks = anthropic.wire.seen[-1].body["messages"][1]["content"]
    assert blocks[:3] == [*HOSTED]
    assert anthropic.wire.seen[-1].body["tools"] == [*tools]


async def test_anthropic_s_references_answer_our_search(anthropic: Service) -> None:
    anthropic.wire.then(Say(calls=(("tool_search", '{"query": "weather"}'),)), Say("Found."))
    ours = {"name": "tool_search", "input_schema": {"type": "object"}}
    asked = (await complete(anthropic.model, ASK)).message
    references = [{"type": "tool_reference", "tool_name": "get_weather"}]
    answer = results_message(
        CallResult(asked.calls[0].id, "tool_search", Result.of("1 tool"), json.dumps(references))
    )
    history = (*ASK.messages, asked, answer)
    await complete(anthropic.model, ModelRequest(messages=history, tools=(ours, DEFERRED)))
    block = anthropic.wire.seen[-1].body["messages"][-1]["content"][0]
    assert block["content"] == references


@pytest.mark.parametrize(
    "native",
    [
        [{"type": "tool_reference", "tool_name": "was_unloaded"}],
        [{"type": "function", "name": "get_weather", "parameters": {}, "defer_loading": True}],
    ],
    ids=["a tool that left the list", "another provider's answer"],
)
async def test_anthropic_gets_as_text_what_it_would_refuse_as_a_reference(
    anthropic: Service, native: list[dict[str, Any]]
) -> None:
    anthropic.wire.then(Say(calls=(("tool_search", '{"query": "weather"}'),)), Say("Found."))
    ours = {"name": "tool_search", "input_schema": {"type": "object"}}
    asked = (await complete(anthropic.model, ASK)).message
    found = CallResult(asked.calls[0].id, "tool_search", Result.of("1 tool"), json.dumps(native))
    history = (*ASK.messages, asked, results_message(found))
    await complete(anthropic.model, ModelRequest(messages=history, tools=(ours, DEFERRED)))
    block = anthropic.wire.seen[-1].body["messages"][-1]["content"][0]
    assert block["content"] == [{"type": "text", "text": "1 tool"}]


async def test_anthropic_s_thinking_can_be_watched(anthropic: Service) -> None:
    anthropic.wire.then(Say("Sunny.", natives=HOSTED[:1]))
    deltas = [d async for d in anthropic.model.stream(ASK)]
    thought = "".join(d.text for d in deltas if isinstance(d, ThoughtDelta))
    assert thought == "I need a tool for weather."


@pytest.mark.parametrize(
    ("stop", "reason"),
    [("max_tokens", "length"), ("refusal", "refused"), ("pause_turn", "paused")],
)
async def test_anthropic_s_reasons_to_stop(anthropic: Service, stop: str, reason: str) -> None:
    anthropic.wire.then(Say("Well", stop=stop))
    assert (await complete(anthropic.model, ASK)).reason == reason


async def test_anthropic_being_overloaded_in_mid_stream_is_transient(anthropic: Service) -> None:
    anthropic.wire.then(Refuse(529, "Overloaded", in_stream=True))
    with pytest.raises(ModelError) as caught:
        await complete(anthropic.model, ASK)
    assert (caught.value.status, caught.value.is_transient) == (529, True)


async def test_anthropic_is_asked_to_cache_the_prefix(anthropic: Service) -> None:
    anthropic.wire.then(Say("Hi"))
    await complete(anthropic.model, ASK)
    assert anthropic.wire.seen[0].body["cache_control"] == {"type": "ephemeral"}


def searching(arguments: dict[str, object], *, by: str) -> dict[str, object]:
    """A search of OpenAI's, as it comes over the wire."""
    return {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": "call_s" if by == "client" else None,
        "execution": by,
        "status": "completed",
        "arguments": arguments,
    }


async def test_openai_s_hosted_search_passes_through_and_back(responses: Service) -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    tool = {"type": "function", "name": "get_weather", "parameters": {}, "strict": False}
    called = searching({"paths": ["weather"]}, by="server")
    found = {
        "type": "tool_search_output",
        "id": "tso_1",
        "execution": "server",
        "status": "completed",
        "call_id": None,
        "tools": [tool],
    }
    natives = (reasoning, called, found)
    responses.wire.then(Say(natives=natives, calls=(("get_weather", "{}"),)), Say("Sunny."))
    first = (await complete(responses.model, ASK)).message
    result = results_message(CallResult(first.calls[0].id, "get_weather", Result.of("sun")))
    await complete(responses.model, ModelRequest(messages=(*ASK.messages, first, result)))
    sent = responses.wire.seen[-1].body["input"]
    assert [item.get("type") for item in sent[1:]] == [
        "reasoning",
        "tool_search_call",
        "tool_search_output",
        "function_call",
        "function_call_output",
    ]
    assert sent[1:4] == [*natives]


async def test_openai_s_search_run_by_us_is_a_call_like_any_other(responses: Service) -> None:
    called = searching({"query": "weather"}, by="client")
    responses.wire.then(Say(natives=(called,)), Say("Found."))
    reply = await complete(responses.model, ASK)
    call = reply.message.calls[0]
    assert (call.name, call.values(), reply.reason) == (
        "tool_search",
        {"query": "weather"},
        "calls",
    )

    tool = {"type": "function", "name": "get_weather", "parameters": {}, "strict": False}
    answer = results_message(
        CallResult(call.id, call.name, Result.of("1 tool"), json.dumps([tool]))
    )
    await complete(responses.model, ModelRequest(messages=(*ASK.messages, reply.message, answer)))
    sent = responses.wire.seen[-1].body["input"]
    assert sent[1] == called
    assert sent[2] == {
        "type": "tool_search_output",
        "call_id": "call_s",
        "execution": "client",
        "status": "completed",
        "tools": [tool],
    }


async def test_an_openai_search_that_finds_nothing_is_answered_with_a_message(
    responses: Service,
) -> None:
    called = searching({"query": "teleport"}, by="client")
    responses.wire.then(Say(natives=(called,)), Say("There is none."))
    asked = (await complete(responses.model, ASK)).message
    answer = results_message(
        CallResult("call_s", "tool_search", Result.of("No tool fits teleport."))
    )
    await complete(responses.model, ModelRequest(messages=(*ASK.messages, asked, answer)))
    output, words = responses.wire.seen[-1].body["input"][2:]
    assert (output["type"], output["tools"]) == ("tool_search_output", [])
    assert words["content"][0]["text"] == "No tool fits teleport."


WORDS = Result(content=(Content(text="Loaded: far"), Content(text="Rules: ask first.")))


async def test_openai_gets_as_text_what_definitions_do_not_say(responses: Service) -> None:
    called = searching({"query": ["travel", "teleport"]}, by="client")
    responses.wire.then(Say(natives=(called,)), Say("Fine."))
    asked = (await complete(responses.model, ASK)).message
    tool = {"type": "function", "name": "far", "parameters": {}, "defer_loading": True}
    answer = results_message(CallResult("call_s", "tool_search", WORDS, native=json.dumps([tool])))
    await complete(responses.model, ModelRequest(messages=(*ASK.messages, asked, answer)))
    output, words = responses.wire.seen[-1].body["input"][2:]
    assert output["tools"] == [tool]
    assert words["role"] == "developer"
    assert words["content"][0]["text"] == "Rules: ask first."


async def test_anthropic_gets_as_text_what_references_do_not_say(anthropic: Service) -> None:
    anthropic.wire.then(Say("Fine."))
    calls = tuple(Call(f"c{i}", "tool_search", "{}") for i in range(2))
    references = json.dumps([{"type": "tool_reference", "tool_name": "far"}])
    answers = tuple(CallResult(c.id, c.name, WORDS, native=references) for c in calls)
    ours = {"name": "tool_search", "input_schema": {"type": "object"}}
    tools = (ours, {"name": "far", "input_schema": {"type": "object"}, "defer_loading": True})
    talk = (*ASK.messages, Message("assistant", calls), results_message(*answers))
    await complete(anthropic.model, ModelRequest(messages=talk, tools=tools))
    blocks = anthropic.wire.seen[-1].body["messages"][-1]["content"]
    assert [b["type"] for b in blocks] == ["tool_result", "tool_result", "text", "text"]
    assert blocks[0]["content"] == json.loads(references)
    assert blocks[2]["text"] == "<notice>Rules: ask first.</notice>"


async def test_openai_keeps_nothing_of_a_conversation(responses: Service) -> None:
    responses.wire.then(Say("Hi"))
    await complete(responses.model, ASK)
    assert responses.wire.seen[0].body["store"] is False


@pytest.mark.parametrize(
    ("stop", "reason"), [("max_output_tokens", "length"), ("content_filter", "refused")]
)
async def test_openai_s_reasons_to_stop(responses: Service, stop: str, reason: str) -> None:
    responses.wire.then(Say("Well", stop=stop))
    assert (await complete(responses.model, ASK)).reason == reason


async def test_a_spent_account_is_not_worth_another_try(chat: Service) -> None:
    chat.wire.then(Refuse(429, "You exceeded your current quota", kind="insufficient_quota"))
    with pytest.raises(ModelError, match="quota") as caught:
        await complete(chat.model, ASK)
    assert not caught.value.is_transient


async def test_broken_arguments_are_kept_and_go_back_readable(service: Service) -> None:
    if service.model.provider == "gemini":
        # Gemini parses calls itself and ends the reply with a reason of its own instead.
        service.wire.then(Say(stop="MALFORMED_FUNCTION_CALL"))
        with pytest.raises(ModelError, match="could not read the model's call") as caught:
            await complete(service.model, ASK)
        assert caught.value.is_transient
        return
    service.wire.then(Say(calls=(("find", '{"q": "blu'),)), Say("Again."))
    asked = (await complete(service.model, ASK)).message
    assert asked.calls[0].arguments == '{"q": "blu'
    assert asked.calls[0].values() is None
    result = results_message(CallResult(asked.calls[0].id, "find", Result.error("not JSON")))
    reply = await complete(service.model, ModelRequest(messages=(*ASK.messages, asked, result)))
    assert reply.message.text == "Again."
    assert "blu" in json.dumps(service.wire.seen[-1].body)


async def test_a_compatible_server_may_number_its_calls_badly(chat: Service) -> None:
    whole = [
        {
            "index": 0,
            "id": f"id_{n}",
            "type": "function",
            "function": {"name": n, "arguments": "{}"},
        }
        for n in ("first", "second")
    ]
    natives = tuple({"tool_calls": [call]} for call in whole)
    chat.wire.then(Say(natives=natives, stop="stop"))
    calls = (await complete(chat.model, ASK)).message.calls
    assert [(c.id, c.name) for c in calls] == [("id_first", "first"), ("id_second", "second")]


async def test_a_compatible_server_may_send_no_ids(chat: Service) -> None:
    natives = tuple(
        {"tool_calls": [{"index": i, "function": {"name": "f", "arguments": "{}"}}]} for i in (0, 1)
    )
    chat.wire.then(Say(natives=natives, stop="tool_calls"))
    ids = [c.id for c in (await complete(chat.model, ASK)).message.calls]
    assert len(set(ids)) == 2
    assert all(ids)


async def test_a_compatible_server_may_show_its_reasoning(chat: Service) -> None:
    chat.wire.then(Say("Hi", natives=({"reasoning_content": "hmm"},)))
    deltas = [d async for d in chat.model.stream(ASK)]
    assert ThoughtDelta("hmm") in deltas


@pytest.mark.parametrize(
    ("stop", "reason"), [("length", "length"), ("content_filter", "refused"), ("stop", "stop")]
)
async def test_chat_s_reasons_to_stop(chat: Service, stop: str, reason: str) -> None:
    chat.wire.then(Say("Well", stop=stop))
    assert (await complete(chat.model, ASK)).reason == reason


async def test_gemini_s_signatures_go_back_with_their_calls(gemini: Service) -> None:
    signed = {
        "functionCall": {"name": "get_weather", "args": {"city": "Kraków"}, "id": "g1"},
        "thoughtSignature": "c2lnbmVk",
    }
    gemini.wire.then(Say(natives=({"text": "hm", "thought": True}, signed)), Say("Sunny."))
    deltas = [d async for d in gemini.model.stream(ASK)]
    assert ThoughtDelta("hm") in deltas
    first = collect(deltas).message
    assert first.calls[0].name == "get_weather"

    answer = results_message(CallResult(first.calls[0].id, "get_weather", Result.of("sun")))
    await complete(gemini.model, ModelRequest(messages=(*ASK.messages, first, answer)))
    model, results = gemini.wire.seen[-1].body["contents"][1:]
    assert model["parts"] == [signed]
    assert results["parts"][0]["functionResponse"]["id"] == "g1"


async def test_gemini_s_signed_text_goes_back_signed(gemini: Service) -> None:
    gemini.wire.then(
        Say(natives=({"text": "Sunny.", "thoughtSignature": "c2lnbmVk"},)), Say("Yes.")
    )
    first = (await complete(gemini.model, ASK)).message
    assert [p for p in first.parts if isinstance(p, NativeBlock)]
    await complete(
        gemini.model, ModelRequest(messages=(*ASK.messages, first, user_message("Sure?")))
    )
    parts = gemini.wire.seen[-1].body["contents"][1]["parts"]
    assert parts[1]["thoughtSignature"] == "c2lnbmVk"


async def test_gemini_answers_a_wrong_key_with_400_and_we_say_so(gemini: Service) -> None:
    gemini.wire.then(Refuse(400, "API key not valid", kind="API_KEY_INVALID"))
    with pytest.raises(ModelError, match="GEMINI_API_KEY") as caught:
        await complete(gemini.model, ASK)
    assert not caught.value.is_transient


@pytest.mark.parametrize(("stop", "reason"), [("MAX_TOKENS", "length"), ("SAFETY", "refused")])
async def test_gemini_s_reasons_to_stop(gemini: Service, stop: str, reason: str) -> None:
    gemini.wire.then(Say("Well", stop=stop))
    assert (await complete(gemini.model, ASK)).reason == reason
