"""One path from end to end: a configuration, two real servers, the official client."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent
from tests.upstreams.processes import free_port

SERVE = ("serve", "--stdio", "--wait", "60")


def text(result: CallToolResult) -> str:
    return "\n".join(c.text for c in result.content if isinstance(c, TextContent))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    (folder / "new.txt").write_text("not yet added")
    return folder


@asynccontextmanager
async def gateway(tmp_path: Path, repository: Path) -> AsyncIterator[Client]:
    config = tmp_path / "mcp.json"
    servers = {
        "time": {"command": sys.executable, "args": ["-m", "mcp_server_time"]},
        "git": {
            "command": sys.executable,
            "args": ["-m", "mcp_server_git", "--repository", str(repository)],
        },
    }
    config.write_text(json.dumps({"mcpServers": servers}))
    command = StdioServerParameters(
        command=str(Path(sys.executable).with_name("toolscout")),
        args=[*SERVE, "--config", str(config)],
        env={"TOOLSCOUT_HOME": str(tmp_path / "home")},
    )
    async with Client(command) as client:
        yield client


async def test_two_servers_are_searched_described_and_called_through_three_tools(
    tmp_path: Path, repository: Path
) -> None:
    async with gateway(tmp_path, repository) as client:
        listed = [t.name for t in (await client.list_tools()).tools]
        assert listed == ["tool_search", "describe_tools", "call_tool", "search_large_output"]

        found = await client.call_tool("tool_search", {"query": "current time in a timezone"})
        assert "time__get_current_time" in text(found)

        described = await client.call_tool("describe_tools", {"names": ["git__git_status"]})
        assert "repo_path" in text(described)

        status = await client.call_tool(
            "call_tool", {"name": "git__git_status", "arguments": {"repo_path": str(repository)}}
        )
        assert not status.is_error
        assert "new.txt" in text(status)

        converted = await client.call_tool(
            "call_tool",
            {"name": "time__get_current_time", "arguments": {"timezone": "Asia/Tokyo"}},
        )
        assert "Asia/Tokyo" in text(converted)


async def test_an_unknown_name_and_wrong_arguments_are_answered_with_what_to_do(
    tmp_path: Path, repository: Path
) -> None:
    async with gateway(tmp_path, repository) as client:
        unknown = await client.call_tool("call_tool", {"name": "time__get_time", "arguments": {}})
        assert unknown.is_error
        assert "time__get_current_time" in text(unknown)

        wrong = await client.call_tool(
            "call_tool", {"name": "time__get_current_time", "arguments": {"zone": "UTC"}}
        )
        assert wrong.is_error
        assert "timezone" in text(wrong)


async def test_the_embedded_example_runs_at_once(tmp_path: Path) -> None:
    command = StdioServerParameters(
        command=str(Path(sys.executable).with_name("toolscout")),
        args=[*SERVE, "--example"],
        env={"TOOLSCOUT_HOME": str(tmp_path)},
    )
    async with Client(command) as client:
        found = await client.call_tool("tool_search", {"query": "mail the invoice to Ann"})
        assert "office__send_email" in text(found)
        call = {"name": "office__weather_forecast", "arguments": {"place": "Oslo"}}
        answer = text(await client.call_tool("call_tool", call))
        assert answer == 'Example only: weather_forecast was called with {"place":"Oslo"}.'


async def test_serving_over_http_tells_how_to_connect_and_stops_when_asked(tmp_path: Path) -> None:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("toolscout")),
        *("serve", "--example", "--http", str(port), "--wait", "60"),
        env={**os.environ, "TOOLSCOUT_HOME": str(tmp_path)},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    told = (await process.stderr.readuntil(b"Ctrl-C")).decode()
    url = f"http://127.0.0.1:{port}/mcp"
    assert f"claude mcp add --transport http toolscout {url}" in told
    assert f'{{"mcpServers": {{"toolscout": {{"url": "{url}"}}}}}}' in told
    assert "Ask it:" in told
    async with Client(url) as client:
        assert (await client.list_tools()).tools[0].name == "tool_search"
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(60):
        rest = await process.stderr.read()
        assert await process.wait() == 0
    assert b"Traceback" not in rest
