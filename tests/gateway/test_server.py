"""What clients of both generations see and get, from one endpoint."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest
from fastmcp import Client as FastMCPClient
from mcp import Client
from mcp.client.subscriptions import ToolsListChanged
from mcp_types import (
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    LoggingMessageNotificationParams,
    TextContent,
)
from tests.gateway.conftest import SMALL, Serve, cancel_a_wait, small, text

GENERATIONS = ["legacy", "2026-07-28"]


async def run(client: Client, tool: str, **arguments: Any) -> Any:
    return await client.call_tool("call_tool", {"name": tool, "arguments": arguments})


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_clients_of_both_generations_search_and_call(serve: Serve, mode: str) -> None:
    async with serve({"one": SMALL}) as running, running.client(mode) as client:
        names = [t.name for t in (await client.list_tools()).tools]
        assert names[:3] == ["tool_search", "describe_tools", "call_tool"]
        found = await client.call_tool("tool_search", {"query": "say it back"})
        assert "one__echo" in text(found)
        described = await client.call_tool("describe_tools", {"names": ["one__echo"]})
        assert '"text"' in text(described) or "text:" in text(described)
        assert text(await run(client, "one__echo", text="hello")) == "hello"


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_client_that_was_shown_nothing_is_given_every_definition_it_asks_for(
    serve: Serve, mode: str
) -> None:
    async with serve({"one": SMALL, "two": SMALL}) as running, running.client(mode) as client:
        query = {"query": "select:one__echo,two__echo"}
        found = text(await client.call_tool("tool_search", query))
        assert found.count('"properties"') == 2
        assert "Shown before" not in found


async def test_the_roster_is_in_the_instructions_and_with_the_search_tool(serve: Serve) -> None:
    async with serve({"one": SMALL, "two": SMALL}) as running:
        for mode in ("legacy", "auto"):
            async with running.client(mode) as client:
                assert "one: echo" in (client.instructions or "")
                search = (await client.list_tools()).tools[0]
                assert "two: echo" in (search.description or "")


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_the_list_is_the_same_bytes_for_every_client_and_after_any_search(
    serve: Serve, mode: str
) -> None:
    async with serve({"one": SMALL, "two": SMALL}) as running:
        lists: set[str] = set()
        for _ in range(2):
            async with running.client(mode) as client:
                for _ in range(2):
                    listed = await client.list_tools(cache_mode="bypass")
                    lists.add(json.dumps([t.model_dump(mode="json") for t in listed.tools]))
                    await client.call_tool("tool_search", {"query": "say it back"})
        assert len(lists) == 1


async def test_the_fastmcp_client_is_served_too(serve: Serve) -> None:
    async with serve({"one": SMALL}) as running, FastMCPClient(running.url) as client:
        result = await client.call_tool(
            "call_tool", {"name": "one__echo", "arguments": {"text": "hi"}}
        )
        assert result.content[0].text == "hi"  # type: ignore[union-attr]


@pytest.mark.behaviour("B53")
async def test_a_tool_called_directly_by_its_name_runs(serve: Serve) -> None:
    async with serve({"one": SMALL}) as running, running.client() as client:
        assert text(await client.call_tool("one__echo", {"text": "hi"})) == "hi"


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_unknown_names_and_misfitting_arguments_say_what_to_do(
    serve: Serve, mode: str
) -> None:
    async with serve({"one": SMALL}) as running, running.client(mode) as client:
        for name in ("one__ecko", "nothing_like_it"):
            unknown = await run(client, name)
            assert unknown.is_error
            assert "no tool" in text(unknown)
        wrong = await run(client, "one__echo", text=["a"])
        assert wrong.is_error
        assert "text" in text(wrong)


@pytest.mark.parametrize("arguments", ["not JSON", "[1]", [1], 5, True])
async def test_arguments_that_are_not_an_object_are_refused_with_a_code_and_what_to_send(
    serve: Serve, arguments: Any
) -> None:
    async with serve({"one": SMALL}) as running, running.client() as client:
        call = {"name": "one__echo", "arguments": arguments}
        refused = await client.call_tool("call_tool", call)
        assert refused.is_error
        assert "arguments must be an object" in text(refused)
        assert '"arguments":{"type":"object"' in text(refused)
        (row,) = (running.home / "state" / "audit.jsonl").read_text().splitlines()
        assert json.loads(row)["outcome"] == "invalid_arguments"


async def test_arguments_that_stand_beside_the_name_reach_the_tool_or_are_refused(
    serve: Serve,
) -> None:
    async with serve({"one": SMALL}) as running, running.client() as client:
        flat: dict[str, Any] = {"name": "one__echo", "text": "hello"}
        assert text(await client.call_tool("call_tool", flat)) == "hello"
        both = {**flat, "arguments": {"text": "there"}}
        refused = await client.call_tool("call_tool", both)
        assert refused.is_error
        assert "text must be inside arguments" in text(refused)
        audit = (running.home / "state" / "audit.jsonl").read_text().splitlines()
        assert json.loads(audit[0])["arguments"] == {"text": "text(5)"}


async def test_null_for_arguments_means_none(serve: Serve) -> None:
    async with serve({"one": SMALL}) as running, running.client() as client:
        said = await client.call_tool("call_tool", {"name": "one__echo", "arguments": None})
        assert text(said) == text(await run(client, "one__echo"))
        assert not said.is_error


async def answered(_: Any, params: ElicitRequestParams) -> ElicitResult:
    assert params.message == "Who are you?"
    return ElicitResult(action="accept", content={"name": "Ann"})


async def sampled(_: Any, params: Any) -> CreateMessageResult:
    return CreateMessageResult(
        role="assistant", content=TextContent(type="text", text="so be it"), model="m"
    )


@pytest.mark.parametrize("upstream", ["handshake", "stateless"])
@pytest.mark.parametrize("mode", GENERATIONS)
async def test_everything_passes_through_whatever_both_sides_speak(
    serve: Serve, talker: dict[str, Any], mode: str, upstream: str
) -> None:
    heard: list[str] = []

    async def logged(params: LoggingMessageNotificationParams) -> None:
        heard.append(str(params.data))

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        heard.append(f"{progress:g} of {total:g}" if total else "")

    async with (
        serve({"talker": {**talker, "protocol": upstream}}) as running,
        running.client(
            mode,
            elicitation_callback=answered,
            sampling_callback=sampled,
            logging_callback=logged,
            log_level="debug",
        ) as client,
    ):
        summed = await run(client, "talker__add", a=2, b=3)
        assert summed.structured_content == {"sum": 5}

        shown = await run(client, "talker__show")
        kinds = [c.type for c in shown.content]
        assert kinds == ["text", "image", "audio", "resource_link", "resource"]
        assert shown.meta["colour"] == "blue"

        assert text(await run(client, "talker__greet")) == "Hello Ann"
        assert text(await run(client, "talker__muse")) == "It said: so be it"

        await client.call_tool(
            "call_tool",
            {"name": "talker__count", "arguments": {"to": 2}},
            progress_callback=progressed,
        )
        assert "2 of 2" in heard
        assert any("at 2" in line for line in heard)


async def test_a_client_that_cannot_be_asked_gets_an_error_and_no_wait(
    serve: Serve, talker: dict[str, Any]
) -> None:
    async with serve({"talker": {**talker, "protocol": "handshake"}}) as running:
        for mode in GENERATIONS:
            async with running.client(mode) as client:
                assert (await run(client, "talker__greet")).is_error


async def test_an_answer_counts_only_from_the_one_who_was_asked(
    serve: Serve, talker: dict[str, Any]
) -> None:
    async with (
        serve({"talker": {**talker, "protocol": "handshake"}}) as running,
        running.client("2026-07-28", elicitation_callback=answered) as client,
    ):
        asked: Any = await client.session.call_tool(
            "call_tool",
            {"name": "talker__greet", "arguments": {}},
            allow_input_required=True,
        )
        stolen = await client.session.call_tool(
            "call_tool",
            {"name": "talker__greet", "arguments": {}},
            request_state=asked.request_state,
            input_responses={"question": ElicitResult(action="accept", content={"name": "Eve"})},
            meta={"toolscout/session": "somebody-else"},
        )
        assert "no longer waiting" in text(stolen)
        own = await client.session.call_tool(
            "call_tool",
            {"name": "talker__greet", "arguments": {}},
            request_state=asked.request_state,
            input_responses={"question": ElicitResult(action="accept", content={"name": "Ann"})},
        )
        assert text(own) == "Hello Ann"


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_cancelled_call_is_cancelled_at_the_server(
    serve: Serve, talker: dict[str, Any], mode: str
) -> None:
    async with serve({"talker": talker}) as running, running.client(mode) as client:
        await cancel_a_wait(running, client)
        rows = (running.home / "state" / "audit.jsonl").read_text().splitlines()
        assert any(json.loads(r)["outcome"] == "cancelled" for r in rows)


async def test_two_clients_never_see_each_others_state(serve: Serve) -> None:
    options = {"gateway": {"surface": "load"}}
    async with (
        serve({"many": small("several")}, **options) as running,
        running.client("legacy") as one,
        running.client("legacy") as two,
    ):
        await one.call_tool("tool_search", {"query": "select:many__tool_7"})
        assert "many__tool_7" in [t.name for t in (await one.list_tools()).tools]
        assert "many__tool_7" not in [t.name for t in (await two.list_tools()).tools]


async def test_a_stateless_client_keeps_its_tools_under_an_id_of_its_own(serve: Serve) -> None:
    options = {"gateway": {"surface": "load"}}
    async with (
        serve({"many": small("several")}, **options) as running,
        running.client("2026-07-28") as client,
    ):
        mine: Any = {"toolscout/session": "mine"}
        query = {"query": "select:many__tool_7"}
        await client.call_tool("tool_search", query, meta=mine)
        listed = await client.list_tools(meta=mine)
        assert "many__tool_7" in [t.name for t in listed.tools]
        others = await client.list_tools(meta={"toolscout/session": "other"})
        assert "many__tool_7" not in [t.name for t in others.tools]
        nobody = await client.list_tools(cache_mode="bypass")
        assert "many__tool_7" not in [t.name for t in nobody.tools]


async def test_a_stateless_client_that_is_not_known_again_calls_what_it_found_through_call_tool(
    serve: Serve,
) -> None:
    options = {"gateway": {"surface": "load"}}
    async with (
        serve({"many": small("several")}, **options) as running,
        running.client("2026-07-28") as client,
    ):
        found = text(await client.call_tool("tool_search", {"query": "select:many__tool_7"}))
        assert "your tool list" not in found
        assert "Run with call_tool" in found
        assert "call_tool" in [t.name for t in (await client.list_tools()).tools]
        assert not (await run(client, "many__tool_7")).is_error


async def test_clients_that_have_gone_are_not_kept(serve: Serve) -> None:
    async with serve({"one": SMALL}) as running, running.client("2026-07-28") as other:
        async with running.client("legacy") as client:
            await client.list_tools()
            assert len(running.gateway.clients.notifier.reachable_clients()) == 1
        async with asyncio.timeout(30):
            while running.gateway.clients.notifier.reachable_clients():
                await other.list_tools(cache_mode="bypass")
                gc.collect()


async def test_loading_tools_tells_a_client_that_its_list_changed(serve: Serve) -> None:
    changed = asyncio.Event()

    async def heard(message: Any) -> None:
        if "ToolListChanged" in type(message).__name__:
            changed.set()

    options = {"gateway": {"surface": "load"}}
    async with (
        serve({"many": small("several")}, **options) as running,
        running.client("legacy", message_handler=heard) as client,
    ):
        await client.list_tools()
        await client.call_tool("tool_search", {"query": "select:many__tool_7"})
        async with asyncio.timeout(30):
            await changed.wait()


async def test_a_stateless_client_that_listens_is_notified_of_its_new_tools(serve: Serve) -> None:
    options = {"gateway": {"surface": "load"}}
    async with (
        serve({"many": small("several")}, **options) as running,
        running.client("2026-07-28") as client,
        running.client("2026-07-28") as listener,
    ):
        mine: Any = {"toolscout/session": "mine"}
        await client.list_tools(meta=mine)
        async with listener.listen(tools_list_changed=True) as events, asyncio.timeout(30):
            await client.call_tool("tool_search", {"query": "select:many__tool_7"}, meta=mine)
            async for event in events:
                assert isinstance(event, ToolsListChanged)
                break


async def test_a_client_that_sees_everything_is_notified_of_a_new_server(serve: Serve) -> None:
    changed = asyncio.Event()

    async def heard(message: Any) -> None:
        if "ToolListChanged" in type(message).__name__:
            changed.set()

    options: Any = {"gateway": {"profile": "everything"}}
    async with (
        serve({"one": SMALL}, **options) as running,
        running.client("legacy", message_handler=heard) as client,
    ):
        await client.list_tools()
        servers = {"one": SMALL, "two": SMALL}
        running.path.write_text(json.dumps({"mcpServers": servers, **options}))
        async with asyncio.timeout(30):
            await changed.wait()
        assert "two__echo" in [t.name for t in (await client.list_tools()).tools]


async def test_an_answer_says_which_tool_gave_it(serve: Serve) -> None:
    async with serve({"one": SMALL}) as running, running.client() as client:
        said = await run(client, "one__echo", text="hi")
        assert said.meta["toolscout/tool"] == "one__echo"


async def test_an_answer_that_comes_after_the_client_has_gone_harms_nobody(serve: Serve) -> None:
    async with serve({"late": small("late"), "one": SMALL}) as running:
        async with running.client("legacy") as client:
            waiting = asyncio.create_task(run(client, "late__echo", text="x"))
            async with asyncio.timeout(30):
                while not running.gateway.upstreams.states()[0].in_flight:
                    await client.list_tools()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        async with running.client() as client:
            assert text(await run(client, "one__echo", text="fine")) == "fine"
            assert text(await run(client, "late__echo", text="late but right")) == "late but right"


@pytest.mark.parametrize("profile", ["solaris", "mcpagent", "cortex", "everruns", "cms"])
async def test_the_five_designs_surfaces_are_served(serve: Serve, profile: str) -> None:
    options = {"gateway": {"profile": profile}}
    async with serve({"one": SMALL}, **options) as running, running.client() as client:
        assert (await client.list_tools()).tools
        assert running.gateway.box.profile.name == profile


async def test_a_pinned_tool_is_always_in_the_list(serve: Serve) -> None:
    pinned = {**small("several"), "pinned": ["tool_3"]}
    async with serve({"many": pinned}) as running, running.client() as client:
        assert "many__tool_3" in [t.name for t in (await client.list_tools()).tools]
        assert text(await client.call_tool("many__tool_3", {"text": "x"})) == "x"


@pytest.mark.behaviour("B49", "S23")
async def test_prompts_and_resources_are_found_and_got_like_tools(
    serve: Serve, talker: dict[str, Any]
) -> None:
    async with serve({"talker": talker, "one": SMALL}) as running, running.client() as client:
        found = await client.call_tool("tool_search", {"query": "get a prompt: poem about a topic"})
        assert "get_prompt" in text(found)
        poem = {"server": "talker", "name": "poem", "arguments": {"topic": "rain"}}
        assert "about rain" in text(await run(client, "get_prompt", **poem))
        greeting = {"server": "talker", "uri": "talk://greeting"}
        got = await run(client, "get_resource", **greeting)
        assert got.content[0].resource.text == "Good day."


async def test_without_prompts_and_resources_there_are_no_tools_for_them(serve: Serve) -> None:
    async with serve({"one": SMALL}) as running, running.client() as client:
        assert (await run(client, "get_prompt", server="one", name="x")).is_error
