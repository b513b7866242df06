"""Prompts and resources of servers pass through, and the profile that shows all tools."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from tests.gateway.conftest import Serve, small, text

from toolscout.events import Event
from toolscout.sources.mcp.mcp_source import MCPSource
from toolscout.sources.mcp.servers import Server, ServerLimits

UPSTREAM = str(Path(__file__).parent / "conformance" / "upstream.py")
EVERYTHING: dict[str, Any] = {
    "command": sys.executable,
    "args": [UPSTREAM],
    "prefix": False,
}
OPTIONS = {"gateway": {"profile": "everything"}}


@pytest.mark.parametrize("upstream", ["handshake", "stateless"])
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_everything_is_shown_and_answered_as_the_server_has_it(
    serve: Serve, mode: str, upstream: str
) -> None:
    server = {**EVERYTHING, "protocol": upstream}
    async with serve({"all": server}, **OPTIONS) as running, running.client(mode) as client:
        tools = {t.name: t for t in (await client.list_tools()).tools}
        schema = tools["json_schema_2020_12_tool"].input_schema
        assert schema["$defs"]["address"]["$anchor"] == "addressDef"

        prompts = [p.name for p in (await client.list_prompts()).prompts]
        assert "test_prompt_with_arguments" in prompts
        prompt = await client.get_prompt("test_prompt_with_image")
        assert [m.content.type for m in prompt.messages] == ["image", "text"]

        assert len((await client.list_resources()).resources) == 3
        read = await client.read_resource("test://static-binary")
        assert isinstance(read.contents[0], types.BlobResourceContents)
        templated = await client.read_resource("test://template/7/data")
        assert '"id": "7"' in templated.contents[0].text  # type: ignore[union-attr]

        reference = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
        done = await client.complete(reference, {"name": "arg1", "value": "test"})
        assert done.completion.values == ["testing", "tested"]

        with pytest.raises(MCPError, match="not found"):
            await client.read_resource("test://nowhere")
        with pytest.raises(MCPError, match="Unknown prompt"):
            await client.get_prompt("nothing")


async def test_with_several_servers_names_tell_whose_they_are(
    serve: Serve, talker: dict[str, Any]
) -> None:
    servers = {"talker": talker, "one": small()}
    async with serve(servers, **OPTIONS) as running, running.client() as client:
        assert {"talker__add", "one__echo"} <= {t.name for t in (await client.list_tools()).tools}
        (prompt,) = (await client.list_prompts()).prompts
        assert prompt.name == "talker__poem"
        filled = await client.get_prompt("talker__poem", {"topic": "tea"})
        assert "about tea" in filled.messages[0].content.text  # type: ignore[union-attr]


async def test_prompts_and_resources_pass_through_by_default(
    serve: Serve, talker: dict[str, Any]
) -> None:
    async with serve({"talker": talker}) as running, running.client() as client:
        assert "talker__add" not in {t.name for t in (await client.list_tools()).tools}
        assert [p.name for p in (await client.list_prompts()).prompts] == ["talker__poem"]
        filled = await client.get_prompt("talker__poem", {"topic": "tea"})
        assert "about tea" in filled.messages[0].content.text  # type: ignore[union-attr]
        resource = (await client.list_resources()).resources[0]
        assert (await client.read_resource(resource.uri)).contents


async def test_passing_through_can_be_switched_off_while_the_gateway_runs(
    serve: Serve, talker: dict[str, Any]
) -> None:
    async with serve({"talker": talker}) as running, running.client() as client:
        assert (await client.list_prompts()).prompts
        document = json.loads(running.path.read_text())
        running.path.write_text(json.dumps({**document, "gateway": {"passthrough": False}}))
        async with asyncio.timeout(30):
            while (await client.list_prompts()).prompts:
                pass
        assert (await client.list_resources()).resources == []


async def test_the_profile_may_change_to_everything_while_the_gateway_runs(
    serve: Serve, talker: dict[str, Any]
) -> None:
    async with serve({"talker": talker}) as running, running.client() as client:
        document = json.loads(running.path.read_text())
        running.path.write_text(json.dumps({**document, **OPTIONS}))
        async with asyncio.timeout(30):
            while "talker__add" not in {t.name for t in (await client.list_tools()).tools}:
                pass


async def test_a_policy_hides_prompts_and_resources_of_a_server_too(
    serve: Serve, talker: dict[str, Any]
) -> None:
    policies = {"some": {"servers": ["one"]}}
    servers = {"talker": talker, "one": small()}
    async with (
        serve(servers, policies=policies, **OPTIONS) as running,
        running.client() as client,
    ):
        assert (await client.list_prompts()).prompts == []
        assert (await client.list_resources()).resources == []
        with pytest.raises(MCPError, match="Unknown prompt"):
            await client.get_prompt("talker__poem", {"topic": "tea"})


async def test_a_subscriber_of_a_resource_is_notified_of_its_changes(
    serve: Serve,
) -> None:
    updated = asyncio.Event()

    async def heard(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            updated.set()

    server = {**EVERYTHING, "protocol": "handshake"}
    async with (
        serve({"all": server}, **OPTIONS) as running,
        running.client("legacy", message_handler=heard) as client,
    ):
        await watch(client, "test://watched-resource")
        await client.call_tool("touch_watched_resource", {})
        async with asyncio.timeout(30):
            await updated.wait()
        await unwatch(client, "test://watched-resource")


FIXED_SERVER = """
from fastmcp import FastMCP

app = FastMCP("fixed")

@app.resource("test://fixed")
def fixed() -> str:
    return "always the same"

app.run(show_banner=False)
"""


async def test_a_server_without_subscriptions_is_named_as_the_one_that_has_none(
    serve: Serve,
) -> None:
    """The gateway declares subscriptions, for the servers that have them."""
    server = {"command": sys.executable, "args": ["-c", FIXED_SERVER], "protocol": "handshake"}
    async with serve({"fixed": server}) as running:
        async with running.client("legacy") as client:
            assert (await client.read_resource("test://fixed")).contents
            with pytest.raises(MCPError, match="'fixed' does not support subscriptions") as error:
                await watch(client, "test://fixed")
            assert error.value.code == types.METHOD_NOT_FOUND
        async with (
            running.client("2026-07-28") as client,
            client.listen(resource_subscriptions=["test://fixed"]) as events,
        ):
            assert not events.honored.resource_subscriptions


WATCHED = "test://watched"
WATCHED_SERVER = str(Path(__file__).parent / "watched.py")


async def watch(client: Client, uri: str = WATCHED) -> None:
    request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
    await client.session.send_request(request, types.EmptyResult)


async def unwatch(client: Client, uri: str = WATCHED) -> None:
    request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
    await client.session.send_request(request, types.EmptyResult)


@pytest.fixture
def watched(tmp_path: Path) -> dict[str, Any]:
    """A server with a resource; the second who watches it has to wait at a gate."""
    os.mkfifo(tmp_path / "gate")
    command = {"command": sys.executable, "args": [WATCHED_SERVER, str(tmp_path)]}
    return {**command, "prefix": False, "protocol": "handshake"}


async def test_a_subscriber_that_starts_while_the_last_one_stops_is_notified_of_changes(
    serve: Serve, watched: dict[str, Any], tmp_path: Path
) -> None:
    updated = asyncio.Event()

    async def heard(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            updated.set()

    async with (
        asyncio.timeout(30),
        serve({"one": watched}, **OPTIONS) as running,
        running.client("legacy") as last,
        running.client("legacy", message_handler=heard) as new,
    ):
        await watch(last)
        begins = asyncio.create_task(watch(new))
        gate = await asyncio.to_thread((tmp_path / "gate").open, "w")  # when the server is asked
        stops = asyncio.create_task(unwatch(last))
        for _ in range(5):  # by then that has come
            await last.list_resources()
        gate.close()
        await asyncio.gather(begins, stops)
        assert text(await new.call_tool("asked", {})) == "subscribe subscribe"
        await new.call_tool("touch", {})
        await updated.wait()
        await unwatch(new)
        assert text(await new.call_tool("asked", {})) == "subscribe subscribe unsubscribe"


async def test_subscriptions_of_a_disconnected_client_end(
    serve: Serve, watched: dict[str, Any]
) -> None:
    async with (
        asyncio.timeout(30),
        serve({"one": watched}, **OPTIONS) as running,
        running.client("legacy") as client,
    ):
        async with running.client("legacy") as gone:
            await watch(gone)
        while text(await client.call_tool("asked", {})) != "subscribe unsubscribe":
            pass


async def test_a_stateless_client_that_listens_is_notified_of_its_resources(
    serve: Serve, watched: dict[str, Any]
) -> None:
    async with (
        asyncio.timeout(60),
        serve({"one": watched}, **OPTIONS) as running,
        running.client("2026-07-28") as client,
    ):
        wanted = [WATCHED, "test://nowhere"]
        async with client.listen(resource_subscriptions=wanted) as events:
            assert events.honored.resource_subscriptions == [WATCHED]
            assert text(await client.call_tool("asked", {})) == "subscribe"
            await client.call_tool("touch", {})
            assert (await anext(events)).uri == WATCHED  # type: ignore[union-attr]
        while text(await client.call_tool("asked", {})) != "subscribe unsubscribe":
            pass


async def test_two_streams_of_one_principal_are_notified_of_their_own_resources_once(
    serve: Serve,
) -> None:
    server = {**EVERYTHING, "protocol": "handshake"}
    async with (
        asyncio.timeout(60),
        serve({"all": server}, **OPTIONS) as running,
        running.client("2026-07-28") as client,
        client.listen(resource_subscriptions=["test://watched-resource"]) as first,
        client.listen(resource_subscriptions=["test://static-text"]) as other,
        client.listen(resource_subscriptions=["test://watched-resource"]) as second,
    ):
        heard: list[list[str]] = [[], [], []]

        async def hear(number: int, events: Any) -> None:
            async for event in events:
                heard[number].append(event.uri)

        tasks = [asyncio.create_task(hear(*each)) for each in enumerate((first, other, second))]
        for _ in range(2):
            await client.call_tool("touch_watched_resource", {})
        while min(len(heard[0]), len(heard[2])) < 2:
            await client.list_resources(cache_mode="bypass")
        for task in tasks:
            task.cancel()
    assert heard == [["test://watched-resource"] * 2, [], ["test://watched-resource"] * 2]


async def test_a_stream_may_not_have_very_many_resources(serve: Serve) -> None:
    wanted = [f"test://{number}" for number in range(1_000)]
    async with (
        serve({"one": small()}, **OPTIONS) as running,
        running.client("2026-07-28") as client,
    ):
        with pytest.raises(MCPError, match="at most 256 resources"):
            async with client.listen(resource_subscriptions=wanted):
                pass


async def test_a_subscribed_resource_stays_subscribed_when_its_server_restarts(
    serve: Serve, watched: dict[str, Any]
) -> None:
    updated: asyncio.Queue[str] = asyncio.Queue()

    async def heard(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            updated.put_nowait(message.params.uri)

    async with (
        asyncio.timeout(30),
        serve({"one": watched}, **OPTIONS) as running,
        running.client("legacy", message_handler=heard) as client,
    ):
        await watch(client)
        await client.call_tool("end", {})
        assert await updated.get() == WATCHED  # it may have changed meanwhile
        assert text(await client.call_tool("asked", {})) == "subscribe"
        await client.call_tool("touch", {})
        assert await updated.get() == WATCHED


async def test_a_server_sleeps_only_when_nobody_watches_what_it_has() -> None:
    looks: asyncio.Queue[None] = asyncio.Queue()
    idle = asyncio.Event()

    def hear(event: Event) -> None:
        if event.kind == "upstream_idle":
            idle.set()

    server = Server(
        name="one",
        command=sys.executable,
        args=(WATCHED_SERVER, "", "again"),
        limits=ServerLimits(idle_seconds=0.001, poll_seconds=0.01),
    )
    source = MCPSource(server, on_change=lambda _: looks.put_nowait(None), sink=hear)
    async with asyncio.timeout(30):
        await source.subscribe(WATCHED, print)
        for _ in range(5):
            await looks.get()
        assert not idle.is_set()
        await source.unsubscribe(WATCHED)
        await idle.wait()
        await source.unsubscribe(WATCHED)
        assert source.state.status == "idle", "there is nothing to wake it for"
    await source.close()
