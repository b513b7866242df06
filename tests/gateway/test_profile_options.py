"""Profiles of a gateway: large results, selections, and edits of `[profile]` while it runs."""

from __future__ import annotations

import json
import sys
from typing import Any

import httpx2
import pytest
from tests.gateway.conftest import UPSTREAMS, Running, Serve, small, text
from tests.gateway.test_reload import until

TALKER = {
    "command": sys.executable,
    "args": [str(UPSTREAMS / "talker.py")],
    "env": {"LARGE": "word " * 25_000},
}


async def names(client: Any) -> list[str]:
    return [t.name for t in (await client.list_tools(cache_mode="bypass")).tools]


async def health(running: Running) -> dict[str, Any]:
    async with httpx2.AsyncClient() as http:
        return (await http.get(f"{running.url.removesuffix('/mcp')}/health")).json()


@pytest.mark.parametrize("profile", ["everything", "everruns", "solaris", "mcpagent"])
async def test_a_client_that_checks_output_schemas_accepts_a_stored_result(
    serve: Serve, profile: str
) -> None:
    gateway = {"profile": profile}
    async with (
        serve({"talk": TALKER}, gateway=gateway) as running,
        running.client("legacy") as client,
    ):
        if profile == "mcpagent":
            await client.call_tool("add_tool", {"tool_names": ["talk__environment"]})
        tools = {t.name: t for t in (await client.list_tools(cache_mode="bypass")).tools}
        assert tools["talk__environment"].output_schema is None
        result = await client.call_tool("talk__environment", {"variable": "LARGE"})
        assert not result.is_error
        assert "search_large_output" in text(result)


async def test_output_schemas_are_listed_where_results_are_not_stored(serve: Serve) -> None:
    gateway = {"profile": "everything", "large_outputs": False}
    async with serve({"talk": TALKER}, gateway=gateway) as running, running.client() as client:
        tools = {t.name: t for t in (await client.list_tools()).tools}
        assert tools["talk__environment"].output_schema is not None


async def test_a_server_outside_the_selection_gives_no_prompts_and_resources(serve: Serve) -> None:
    servers = {"talk": TALKER, "one": small()}
    gateway, profile = {"profile": "mcpagent"}, {"selected_servers": ["one"]}
    async with (
        serve(servers, gateway=gateway, profile=profile) as running,
        running.client() as client,
    ):
        listed = text(await client.call_tool("show_all_tools", {}))
        assert "one__echo" in listed
        assert "get_prompt" not in listed
        arguments = {"server": "talk", "name": "poem", "arguments": {"topic": "rain"}}
        refused = await client.call_tool("get_prompt", arguments)
        assert refused.is_error
        assert "rain" not in text(refused)


async def test_a_policy_decides_whose_prompts_get_prompt_gets(serve: Serve) -> None:
    servers = {"talk": TALKER, "one": small()}
    policies = {"all": {"servers": ["one"]}}
    arguments = {"server": "talk", "name": "poem", "arguments": {"topic": "rain"}}
    call = {"name": "get_prompt", "arguments": arguments}
    async with serve(servers) as running, running.client() as client:
        assert "rain" in text(await client.call_tool("call_tool", call))
    async with serve(servers, policies=policies) as running, running.client() as client:
        refused = await client.call_tool("call_tool", call)
        assert refused.is_error
        assert "rain" not in text(refused)


async def test_an_edit_of_the_profile_reaches_connected_clients(serve: Serve) -> None:
    servers = {"one": small()}

    def edit(running: Running, profile: str, **options: Any) -> None:
        sections = {"gateway": {"profile": profile}, "profile": options}
        running.path.write_text(json.dumps({"mcpServers": servers, **sections}))

    start = {"gateway": {"profile": "mcpagent"}, "profile": {}}
    async with serve(servers, **start) as running, running.client("legacy") as client:
        before = await names(client)
        assert "read_large_output" in before
        assert "one__echo" not in before

        edit(running, "mcpagent", pre_discovered=["echo"], output_tools="unified")

        async def has_echo() -> bool:
            return "one__echo" in await names(client)

        await until(has_echo)
        assert "read_large_output" not in await names(client)
        assert (await health(running))["status"] == "ready"

        edit(running, "cortex")

        async def has_tool_search() -> bool:
            return "ToolSearch" in await names(client)

        await until(has_tool_search)
        assert "one__echo" not in await names(client)
        assert "read_large_output" not in await names(client)


async def test_health_names_options_that_select_nothing(serve: Serve) -> None:
    start = {"gateway": {"profile": "mcpagent"}, "profile": {"pre_discovered": ["nope"]}}
    async with serve({"one": small()}, **start) as running, running.client() as client:
        await names(client)
        report = await health(running)
        assert report["status"] == "degraded"
        assert report["problems"] == ["profile: No tool, server or category is named nope."]
