"""What every client does alike, driven through its real SDK against the loopback service."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest
from tests.models.conftest import CLIENTS, Service
from tests.wire.server import Wire
from tests.wire.turns import Hang, Refuse, Say

from toolscout.catalog.result import Content, Result
from toolscout.errors import ConfigError, ModelError
from toolscout.models.deltas import CallDelta, FinishDelta, TextDelta, collect
from toolscout.models.messages import (
    CallResult,
    NativeBlock,
    Text,
    assistant_message,
    notice_message,
    results_message,
    user_message,
)
from toolscout.models.model import ModelRequest, complete

HELLO = ModelRequest(messages=(user_message("hello"),), instructions="Be kind.")


async def test_words_arrive_in_pieces_and_fold_into_the_whole(service: Service) -> None:
    service.wire.then(Say("Good morning to you all"))
    deltas = [delta async for delta in service.model.stream(HELLO)]
    assert len([d for d in deltas if isinstance(d, TextDelta)]) > 2
    assert collect(deltas).message.text == "Good morning to you all"
    assert deltas[-1] == FinishDelta("stop")


async def test_calls_arrive_in_pieces_and_fold_into_the_whole(service: Service) -> None:
    service.wire.then(
        Say("Let me look.", calls=(("find", '{"q": "blue"}'), ("find", '{"q": "ö"}')))
    )
    deltas = [d async for d in service.model.stream(HELLO)]
    reply = collect(deltas)
    assert [call.values() for call in reply.message.calls] == [{"q": "blue"}, {"q": "ö"}]
    assert len({call.id for call in reply.message.calls}) == 2
    assert reply.reason == "calls"
    assert any(isinstance(d, CallDelta) for d in deltas)


async def test_results_go_back_with_their_calls(service: Service) -> None:
    """The service refuses a call without its result, so an accepted request proves the pairing."""
    service.wire.then(Say(calls=(("find", '{"q": "a"}'), ("find", '{"q": "b"}'))), Say("Done."))
    history = (*HELLO.messages, (await complete(service.model, HELLO)).message)
    results = results_message(
        *(CallResult(c.id, c.name, Result.of({"found": c.values()})) for c in history[-1].calls)
    )
    reply = await complete(
        service.model,
        ModelRequest(
            messages=(*history, results, notice_message("Hurry."), user_message("And?")),
            tools=(service.tool,),
        ),
    )
    assert reply.message.text == "Done."
    sent = json.dumps(service.wire.seen[-1].body, ensure_ascii=False)
    assert sent.index("Hurry.") < sent.index("And?")


async def test_a_failed_call_is_reported_as_a_failure(service: Service) -> None:
    service.wire.then(Say(calls=(("find", "{}"),)), Say("Sorry."))
    asked = (await complete(service.model, HELLO)).message
    result = results_message(CallResult(asked.calls[0].id, "find", Result.error("no such colour")))
    await complete(service.model, ModelRequest(messages=(*HELLO.messages, asked, result)))
    sent = json.dumps(service.wire.seen[-1].body).lower()
    assert "no such colour" in sent
    assert "error" in sent


async def test_an_image_in_a_result_reaches_the_model_or_is_named(service: Service) -> None:
    service.wire.then(Say(calls=(("find", "{}"),)), Say("A fine picture."))
    asked = (await complete(service.model, HELLO)).message
    picture = Content(type="image", data="aGVsbG8=", mime="image/png")
    result = Result(content=(Content(text="here"), picture))
    answer = results_message(CallResult(asked.calls[0].id, "find", result))
    await complete(service.model, ModelRequest(messages=(*HELLO.messages, asked, answer)))
    sent = json.dumps(service.wire.seen[-1].body)
    assert "image/png" in sent
    assert ("aGVsbG8=" in sent) is (service.model.provider != "openai-chat")


async def test_an_empty_result_is_a_result(service: Service) -> None:
    service.wire.then(Say(calls=(("find", "{}"),)), Say("Nothing."))
    asked = (await complete(service.model, HELLO)).message
    answer = results_message(CallResult(asked.calls[0].id, "find", Result.of(None)))
    reply = await complete(service.model, ModelRequest(messages=(*HELLO.messages, asked, answer)))
    assert reply.message.text == "Nothing."


async def test_usage_tells_what_came_from_the_cache(service: Service) -> None:
    service.wire.then(Say("Hi", input_tokens=500, cached_tokens=400, output_tokens=7))
    usage = (await complete(service.model, HELLO)).usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (500, 400, 7)
    assert usage.total_tokens == 507


async def test_instructions_key_and_model_reach_the_service(service: Service) -> None:
    service.wire.then(Say("Hi"))
    await complete(service.model, HELLO)
    seen = service.wire.seen[0]
    assert "Be kind." in json.dumps(seen.body)
    assert "key-of-the-test" in json.dumps(dict(seen.headers))
    assert "test-model" in seen.path + json.dumps(seen.body)


@pytest.mark.parametrize("choice", ["auto", "none", "required", "find"])
async def test_each_choice_is_said_in_the_provider_s_words(service: Service, choice: str) -> None:
    expected = {
        "anthropic": {
            "auto": {"type": "auto"},
            "none": {"type": "none"},
            "required": {"type": "any"},
            "find": {"type": "tool", "name": "find"},
        },
        "openai-chat": {
            "auto": "auto",
            "none": "none",
            "required": "required",
            "find": {"type": "function", "function": {"name": "find"}},
        },
        "openai-responses": {
            "auto": "auto",
            "none": "none",
            "required": "required",
            "find": {"type": "function", "name": "find"},
        },
        "gemini": {
            "auto": {"functionCallingConfig": {"mode": "AUTO"}},
            "none": {"functionCallingConfig": {"mode": "NONE"}},
            "required": {"functionCallingConfig": {"mode": "ANY"}},
            "find": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["find"]}},
        },
    }
    service.wire.then(Say("Hi"))
    await complete(
        service.model, ModelRequest(messages=HELLO.messages, tools=(service.tool,), choice=choice)
    )
    body = service.wire.seen[0].body
    said = body.get("tool_choice", body.get("toolConfig"))
    assert said == expected[service.model.provider][choice]
    assert "find" in json.dumps(body["tools"])


@pytest.mark.parametrize(
    ("status", "is_transient"),
    [(400, False), (401, False), (403, False), (404, False), (429, True), (500, True), (503, True)],
)
async def test_error_replies_say_what_happened_and_whether_to_try_again(
    service: Service, status: int, is_transient: bool
) -> None:
    service.wire.then(Refuse(status, "because of the moon"))
    with pytest.raises(ModelError, match="because of the moon") as caught:
        await complete(service.model, HELLO)
    assert caught.value.status == status
    assert caught.value.is_transient is is_transient
    assert str(status) in str(caught.value)
    assert caught.value.hint


async def test_a_wrong_key_names_the_variable_to_set(service: Service) -> None:
    service.wire.then(Refuse(401, "wrong key"))
    with pytest.raises(ModelError, match="_API_KEY"):
        await complete(service.model, HELLO)


async def test_a_rate_limit_tells_how_long_to_wait(service: Service) -> None:
    headers = {"retry-after": "7"} if service.model.provider != "gemini" else {}
    service.wire.then(Refuse(429, "slow down", headers={**headers, "x-retry-delay": "7s"}))
    with pytest.raises(ModelError) as caught:
        await complete(service.model, HELLO)
    assert caught.value.wait_seconds == 7.0


@pytest.mark.parametrize("frames", [0, 1, 2, 3])
async def test_a_cut_stream_is_a_failure_not_a_short_answer(service: Service, frames: int) -> None:
    service.wire.then(Say("This reply will never be whole", cut_after=frames))
    with pytest.raises(ModelError) as caught:
        await complete(service.model, HELLO)
    assert caught.value.is_transient


async def test_a_stream_that_ends_politely_but_early_is_cut_too(service: Service) -> None:
    """No network error here: the connection closes well, only the end of the reply is missing."""
    service.wire.then(Say("This reply will never be whole", stop_after=3))
    with pytest.raises(ModelError, match="before the reply was complete"):
        await complete(service.model, HELLO)


async def test_an_error_inside_a_stream_is_reported(service: Service) -> None:
    service.wire.then(Refuse(500, "the engine stalled", in_stream=True))
    with pytest.raises(ModelError, match="the engine stalled") as caught:
        await complete(service.model, HELLO)
    assert caught.value.is_transient


async def test_a_stream_that_cannot_be_read_is_reported(service: Service) -> None:
    service.wire.then(Say("Hello there", garble_after=2))
    with pytest.raises(ModelError, match="not readable"):
        await complete(service.model, HELLO)


async def test_a_request_the_service_would_refuse_is_reported_with_its_reason(
    service: Service,
) -> None:
    service.wire.then(Say(calls=(("find", "{}"),)), Say("never said"))
    asked = (await complete(service.model, HELLO)).message
    with pytest.raises(ModelError) as caught:
        await complete(service.model, ModelRequest(messages=(*HELLO.messages, asked)))
    assert caught.value.status == 400
    assert not caught.value.is_transient


async def test_a_long_detail_is_cut_in_the_message(service: Service) -> None:
    service.wire.then(Refuse(400, "x" * 5_000))
    with pytest.raises(ModelError) as caught:
        await complete(service.model, HELLO)
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("provider", CLIENTS)
async def test_a_service_that_is_not_there_is_transient(provider: str) -> None:
    async with Wire() as wire:
        gone = wire.url
    client, path = CLIENTS[provider]
    model = client("m", api_key="k", base_url=gone + path)
    with pytest.raises(ModelError, match="could not be reached") as caught:
        await complete(model, HELLO)
    assert caught.value.is_transient
    await model.close()


@pytest.mark.parametrize("provider", CLIENTS)
async def test_a_service_that_never_answers_runs_into_the_time_limit(provider: str) -> None:
    client, path = CLIENTS[provider]
    async with Wire(Hang()) as wire:
        model = client("m", api_key="k", base_url=wire.url + path, timeout_seconds=0.05)
        with pytest.raises(ModelError) as caught:
            await complete(model, HELLO)
        assert caught.value.is_transient
        await model.close()


async def test_a_request_can_be_cancelled(service: Service) -> None:
    service.wire.then(Hang())
    asking = asyncio.create_task(complete(service.model, HELLO))
    await service.wire.hung.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_stream_can_be_left_early_and_the_client_used_again(service: Service) -> None:
    service.wire.then(Say("word " * 50), Say("again"))
    async with aclosing(service.model.stream(HELLO)) as stream:
        await anext(stream)
    assert (await complete(service.model, HELLO)).message.text == "again"


async def test_the_most_tokens_to_write_can_be_set(service: Service) -> None:
    service.wire.then(Say("Hi"))
    await complete(service.model, ModelRequest(messages=HELLO.messages, max_tokens=77))
    assert "77" in json.dumps(service.wire.seen[0].body)


async def test_blocks_of_another_provider_are_left_out(service: Service) -> None:
    service.wire.then(Say("Hi"))
    mixed = assistant_message(NativeBlock("elsewhere", '{"secret": 1}'), Text("I said this."))
    await complete(
        service.model, ModelRequest(messages=(*HELLO.messages, mixed, user_message("Go on.")))
    )
    sent = json.dumps(service.wire.seen[0].body)
    assert "I said this." in sent
    assert "secret" not in sent


async def test_an_empty_turn_of_the_model_does_not_spoil_the_conversation(service: Service) -> None:
    service.wire.then(Say(""), Say("Here I am."))
    silent = (await complete(service.model, HELLO)).message
    request = ModelRequest(messages=(*HELLO.messages, silent, user_message("Are you there?")))
    assert (await complete(service.model, request)).message.text == "Here I am."


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai-chat", "OPENAI_API_KEY"),
        ("openai-responses", "OPENAI_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
    ],
)
def test_without_a_key_the_error_says_exactly_what_to_set(
    provider: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigError, match=f"Set {variable}"):
        CLIENTS[provider][0]("m")


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("anthropic", "ANTHROPIC_BASE_URL"),
        ("openai-chat", "OPENAI_BASE_URL"),
        ("openai-responses", "OPENAI_BASE_URL"),
        ("gemini", "GOOGLE_GEMINI_BASE_URL"),
    ],
)
async def test_an_address_from_the_environment_is_used_and_not_trusted_with_native_features(
    provider: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, path = CLIENTS[provider]
    monkeypatch.delenv(variable, raising=False)
    assert client("m", api_key="k").transport == "direct"
    async with Wire() as wire:
        monkeypatch.setenv(variable, wire.url + path)
        model = client("m", api_key="k")
        assert model.transport == "gateway"
        wire.then(Say("From there."))
        assert (await complete(model, HELLO)).message.text == "From there."
        await model.close()
        assert client("m", api_key="k", transport="direct").transport == "direct"
