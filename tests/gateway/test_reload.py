"""Edits of everything beside the servers, while clients are connected."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from tests.gateway.conftest import Running, Serve, small, text
from tests.gateway.test_access import ALICE, BOB, TOKENS, as_, post, run

from toolscout.cli.app import run as toolscout

SERVERS = {"one": small("several"), "two": small()}


def edit(running: Running, **sections: Any) -> None:
    running.path.write_text(json.dumps({"mcpServers": SERVERS, **sections}))


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Look until something holds."""
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110 -- what holds may not pause by itself
            await asyncio.sleep(0)


async def names(client: Client) -> list[str]:
    return [t.name for t in (await client.list_tools(cache_mode="bypass")).tools]


async def health(running: Running) -> dict[str, Any]:
    async with httpx2.AsyncClient() as http:
        return (await http.get(f"{running.url.removesuffix('/mcp')}/health")).json()


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_edited_policy_holds_for_clients_that_are_connected(
    serve: Serve, mode: str
) -> None:
    before = {"all": {"servers": ["one", "two"]}}
    async with serve(SERVERS, policies=before) as running, running.client(mode) as client:
        assert not (await run(client, "two__echo", text="x")).is_error
        assert "two: echo" in ((await client.list_tools()).tools[0].description or "")
        edit(running, policies={"all": {"servers": ["one"]}})

        async def is_refused() -> bool:
            return (await run(client, "two__echo", text="x")).is_error

        await until(is_refused)
        found = await client.call_tool("tool_search", {"query": "say it back"})
        assert "two__echo" not in text(found)
        listed = await client.list_tools(cache_mode="bypass")
        assert "echo" not in listed.model_dump_json(), "nor is it named in what there is"


async def test_an_edited_profile_changes_what_connected_clients_see_and_notifies_them(
    serve: Serve,
) -> None:
    changed = asyncio.Event()

    async def heard(message: Any) -> None:
        if "ToolListChanged" in type(message).__name__:
            changed.set()

    async with (
        serve(SERVERS) as running,
        running.client("legacy", message_handler=heard) as client,
    ):
        before = await names(client)
        edit(running, gateway={"surface": "load"})
        async with asyncio.timeout(60):
            await changed.wait()
        assert "call_tool" in before
        assert "call_tool" not in await names(client)
        await client.call_tool("tool_search", {"query": "select:one__tool_7"})
        assert "one__tool_7" in await names(client)
        assert "problems" not in await health(running)


async def test_an_edited_token_opens_and_closes_the_door_at_once(serve: Serve) -> None:
    carol = "carol-token-0123456789"
    async with serve(SERVERS, variables={"BOB_TOKEN": BOB}, **TOKENS) as running:
        assert (await post(running.url, Authorization=f"Bearer {ALICE}")).status_code == 200
        edit(running, auth={"tokens": {"carol": carol}})

        async def is_closed() -> bool:
            answer = await post(running.url, Authorization=f"Bearer {ALICE}")
            return answer.status_code == 401

        await until(is_closed)
        async with as_(running, carol) as client:
            assert not (await run(client, "two__echo", text="x")).is_error


async def test_an_edited_audit_log_and_need_for_approval_are_followed(
    serve: Serve, tmp_path: Path
) -> None:
    async with serve(SERVERS) as running, running.client() as client:
        await run(client, "two__echo", text="x")
        new = tmp_path / "elsewhere.jsonl"
        servers = {**SERVERS, "three": small("hints")}
        options = {"audit": str(new), "require_approval": True}
        running.path.write_text(json.dumps({"mcpServers": servers, "gateway": options}))

        async def is_held() -> bool:
            await client.call_tool("tool_search", {"query": "look"})
            source = running.gateway.upstreams.sources.get("three")
            return source is not None and bool(source.ledger.pins_on_hold)

        await until(is_held)
        assert (await run(client, "three__look", text="x")).is_error
        assert not (await run(client, "two__echo", text="x")).is_error
        assert json.loads(new.read_text().splitlines()[-1])["tool"] == "two__echo"


async def test_edits_that_wait_for_a_restart_are_reported_everywhere(
    serve: Serve,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serve(SERVERS) as running, running.client() as client:
        monkeypatch.setenv("TOOLSCOUT_HOME", str(running.home))
        monkeypatch.setenv("TOOLSCOUT_EMBEDDER", "none")
        await names(client)

        def checked() -> dict[str, Any]:
            toolscout(["check", "--config", str(running.path), "--json"])
            return json.loads(capsys.readouterr().out)

        assert (await asyncio.to_thread(checked))["warnings"] == []
        edit(running, gateway={"allowed_hosts": ["example.com"], "large_outputs": False})

        async def is_told() -> bool:
            return "problems" in await health(running)

        with caplog.at_level(logging.WARNING):
            await until(is_told)
        said = "after a restart: gateway.large_outputs, gateway.allowed_hosts."
        assert said in (await health(running))["problems"][0]
        assert said in caplog.text
        assert said in (await asyncio.to_thread(checked))["warnings"][0]
        edit(running)

        async def is_well() -> bool:
            return not await is_told()

        await until(is_well)
    assert (await asyncio.to_thread(checked))["warnings"] == []
