"""Phrases and aliases in a running gateway, in front of real servers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.gateway.conftest import SMALL, Serve, small, text
from tests.gateway.test_access import run
from tests.gateway.test_reload import health

from toolscout.cli.app import run as toolscout

REQUEST = "parrot this sentence"
ENTRY = f'[two.echo]\nphrases = ["{REQUEST}"]\naliases = ["parrot"]\n'
SERVERS = {"one": small("several"), "two": SMALL}


async def found(client: Client) -> str:
    return text(await client.call_tool("tool_search", {"query": REQUEST}))


async def test_an_edit_of_the_overlay_reaches_connected_clients(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "phrases.toml"
    path.write_text("")
    async with (
        serve(SERVERS, gateway={"overlay": "phrases.toml"}) as running,
        running.client() as client,
    ):
        listed = (await client.list_tools()).model_dump_json()
        pins = sorted((p, p.read_text()) for p in (running.home / "state/pins").rglob("*.json"))
        assert "two__echo" not in await found(client)
        path.write_text(ENTRY)
        async with asyncio.timeout(60):
            while "two__echo" not in await found(client):
                pass
        said = await run(client, "parrot", text="hello")
        assert not said.is_error, "the alias can be called"
        described = text(await client.call_tool("describe_tools", {"names": ["parrot"]}))
        assert "two__echo" in described
        assert REQUEST not in described
        after = (await client.list_tools(cache_mode="bypass")).model_dump_json()
        assert after == listed
        assert pins
        assert pins == sorted(
            (p, p.read_text()) for p in (running.home / "state/pins").rglob("*.json")
        )


async def test_health_names_a_broken_overlay_and_an_entry_without_a_tool(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "phrases.toml"
    path.write_text(f'{ENTRY}\n[two.ecko]\nphrases = ["x"]\n')
    async with (
        serve(SERVERS, gateway={"overlay": "phrases.toml"}) as running,
        running.client() as client,
    ):
        assert "two__echo" in await found(client)
        report = await health(running)
        assert report["status"] == "degraded"
        (problem,) = report["problems"]
        assert problem.startswith("overlay: line 5, two.ecko: The server 'two' has no tool 'ecko'")
        assert problem.endswith("Did you mean two.echo?")
        path.write_text("[two.echo\n")
        async with asyncio.timeout(60):
            while "line 1" not in (await health(running))["problems"][0]:
                pass
        assert "two__echo" in await found(client), "the last good state stays"


async def test_over_stdio_a_phrase_given_on_the_command_line_finds_its_tool(
    tmp_path: Path,
) -> None:
    path, overlay = tmp_path / "servers.json", tmp_path / "phrases.toml"
    path.write_text(json.dumps({"mcpServers": SERVERS}))
    overlay.write_text(ENTRY)
    arguments = ["serve", "--stdio", "--wait", "60", "--config", str(path)]
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "toolscout.cli", *arguments, "--overlay", str(overlay)],
        env={
            **os.environ,
            "TOOLSCOUT_HOME": str(tmp_path / "home"),
            "TOOLSCOUT_EMBEDDER": "none",
        },
    )
    async with Client(stdio_client(command)) as client, asyncio.timeout(60):
        assert "two__echo" in await found(client)
        assert not (await run(client, "parrot", text="hello")).is_error


def test_check_warns_of_entries_without_a_tool(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("TOOLSCOUT_HOME", str(tmp_path / "home"))
    path, overlay = tmp_path / "servers.json", tmp_path / "phrases.toml"
    path.write_text(
        json.dumps({"mcpServers": {"two": SMALL}, "gateway": {"overlay": "phrases.toml"}})
    )
    overlay.write_text(ENTRY)
    assert toolscout(["check", "--config", str(path)]) == 0
    overlay.write_text('[too.echo]\nphrases = ["x"]\n')
    assert toolscout(["check", "--config", str(path)]) == 10
    said = capsys.readouterr().out
    assert "overlay: line 1, too.echo: There is no server 'too' here. Did you mean two?" in said
    overlay.write_text("oops")
    assert toolscout(["check", "--config", str(path)]) == 10
    assert "is not TOML" in capsys.readouterr().out
