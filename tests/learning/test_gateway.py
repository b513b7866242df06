"""A gateway in a process of its own learns from its clients, over HTTP and over stdio."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.gateway.conftest import text

from .office import DESCRIPTIONS, MEANT, REQUEST

SERVER = Path(__file__).with_name("office_server.py")
TOOL = f"office__{MEANT}"


def write_config(folder: Path) -> dict[str, str]:
    """A configuration with the office, and the environment to serve it in."""
    server = {"command": sys.executable, "args": [str(SERVER)]}
    (folder / "mcp.json").write_text(
        json.dumps({"mcpServers": {"office": server}, "gateway": {"start_wait_seconds": 60}})
    )
    inherited = {k: v for k, v in os.environ.items() if k != "TOOLSCOUT_LEARNING"}
    return {**inherited, "TOOLSCOUT_HOME": str(folder / "home")}


@contextmanager
def serving(folder: Path, **environment: str) -> Iterator[str]:
    env = {**write_config(folder), **environment}
    command = ["serve", "--config", "mcp.json", "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-m", "toolscout.cli", *command],
        cwd=folder,
        env=env,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while not (found := re.search(r" at (http\S+/mcp)$", line := process.stderr.readline())):
            assert line, "the gateway ended before it served"
        # It prints a line per search, and would wait for ever once the pipe is full.
        drain = Thread(target=process.stderr.read)
        drain.start()
        try:
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)
            drain.join()


async def search(client: Client, query: str = REQUEST) -> list[str]:
    """The names in a reply, in their order, once semantic search is ready."""
    async with asyncio.timeout(60):
        while True:
            reply = text(await client.call_tool("tool_search", {"query": query}))
            if "still" not in reply:
                break
    names = [f"office__{name}" for name in DESCRIPTIONS]
    return sorted((n for n in names if n in reply), key=reply.index)


async def use(client: Client, query: str = REQUEST) -> int:
    """Search, and call the tool that is meant; its place in the reply."""
    names = await search(client, query)
    result = await client.call_tool("call_tool", {"name": TOOL, "arguments": {}})
    assert text(result) == f"{MEANT} ran"
    return names.index(TOOL)


async def wait_for_place(client: Client, is_reached: Callable[[int], bool]) -> None:
    """Search until the tool is at such a place: learning happens in the background."""
    async with asyncio.timeout(60):
        while not is_reached((await search(client)).index(TOOL)):
            pass


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_call_after_a_search_is_learned_with_and_without_sessions(
    tmp_path: Path, mode: str
):
    with serving(tmp_path) as url:
        async with Client(url, mode=mode) as client:
            before = await use(client)
            assert before > 0
            # The next search ends the turn.
            await use(client)
        async with Client(url, mode=mode) as client:
            await wait_for_place(client, lambda place: place < before)
    status = run_status(tmp_path)
    assert status["learning"] == "on"
    assert status["tools"] == {TOOL: status["observations"]}


async def test_a_gateway_over_stdio_learns_when_its_client_leaves(tmp_path: Path):
    env = write_config(tmp_path)
    gateway = StdioServerParameters(
        command=sys.executable,
        args=["-m", "toolscout.cli", "serve", "--stdio", "--config", str(tmp_path / "mcp.json")],
        env=env,
    )
    async with Client(stdio_client(gateway)) as client:
        before = await use(client)
    assert run_status(tmp_path)["observations"] == 1
    async with Client(stdio_client(gateway)) as client:
        await wait_for_place(client, lambda place: place < before)


async def test_shadow_mode_reports_recall_with_and_without_use(tmp_path: Path):
    with serving(tmp_path, TOOLSCOUT_LEARNING="shadow") as url:
        async with Client(url) as client:
            places = [await use(client, "add this to my diary") for _ in range(3)]
            await search(client)
        assert len({*places}) == 1
        async with httpx2.AsyncClient() as http:
            metrics = (await http.get(url.replace("/mcp", "/metrics"))).text
    assert "toolscout_shadow_calls_total 3" in metrics
    assert 'toolscout_shadow_hits_total{ranking="base",within="5"}' in metrics
    shadow = run_status(tmp_path)["shadow"]
    assert shadow["calls"] == 3
    assert shadow["base_recall_at_5"] == 1


async def test_a_reset_reaches_a_running_gateway(tmp_path: Path):
    with serving(tmp_path) as url:
        async with Client(url) as client:
            before = await use(client)
            await wait_for_place(client, lambda place: place < before)
            assert (await read_health(url))["observations"] >= 1
            assert run_learn(tmp_path, "reset", TOOL)["removed"] >= 1
            assert (await read_health(url))["observations"] == 0
            await wait_for_place(client, lambda place: place == before)


async def read_health(url: str) -> Any:
    """What `/health` says about learning."""
    async with httpx2.AsyncClient() as http:
        return (await http.get(url.replace("/mcp", "/health"))).json()["parts"]["learning"]


def run_learn(folder: Path, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "toolscout.cli", "learn", *arguments, "--json"],
        env=write_config(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def run_status(folder: Path) -> Any:
    return run_learn(folder, "status")
