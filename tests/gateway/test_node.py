"""Real servers and a real client from npm."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.gateway import node
from tests.gateway.conftest import Serve, text

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(node.missing()), reason=node.missing() or "never"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="session")
def bin_() -> Path:
    return node.installed("servers", node.SERVERS) / "node_modules" / ".bin"


def server(bin_: Path, name: str, *args: str, **env: str) -> dict[str, Any]:
    path = f"{bin_}:{os.environ['PATH']}"
    return {"command": str(bin_ / name), "args": list(args), "env": {"PATH": path, **env}}


async def run(client: Client, tool: str, **arguments: Any) -> Any:
    return await client.call_tool("call_tool", {"name": tool, "arguments": arguments})


async def test_the_reference_servers_work_behind_the_gateway(
    serve: Serve, bin_: Path, tmp_path: Path
) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "note.txt").write_text("remember the milk")
    servers = {
        "everything": server(bin_, "mcp-server-everything", "stdio"),
        "files": server(bin_, "mcp-server-filesystem", str(tmp_path / "files")),
        "memory": server(
            bin_, "mcp-server-memory", MEMORY_FILE_PATH=str(tmp_path / "memory.jsonl")
        ),
    }
    async with serve(servers) as running, running.client("legacy") as client:
        found = await client.call_tool("tool_search", {"query": "read a text file"})
        assert "files__read_text_file" in text(found)
        read = await run(client, "files__read_text_file", path=str(tmp_path / "files" / "note.txt"))
        assert "remember the milk" in text(read)

        outside = await run(client, "files__read_text_file", path="/etc/hostname")
        assert outside.is_error

        entity = {"name": "Ann", "entityType": "person", "observations": ["likes tea"]}
        made = await run(client, "memory__create_entities", entities=[entity])
        assert not made.is_error
        graph = await run(client, "memory__read_graph")
        assert "likes tea" in text(graph)

        echoed = await run(client, "everything__echo", message="hello")
        assert "hello" in text(echoed)
        summed = await run(client, "everything__get-sum", a=2, b=3)
        assert "5" in text(summed)
        picture = await run(client, "everything__get-tiny-image")
        assert "image" in [c.type for c in picture.content]

        states = {s.server: s.status for s in running.gateway.upstreams.states()}
        assert set(states.values()) == {"ready"}


async def test_the_inspectors_command_line_uses_the_gateway(serve: Serve, bin_: Path) -> None:
    servers = {"everything": server(bin_, "mcp-server-everything", "stdio")}
    async with serve(servers) as running:

        async def inspect(*args: str) -> Any:
            process = await asyncio.create_subprocess_exec(
                str(bin_ / "mcp-inspector"),
                *("--cli", running.url, "--transport", "http", *args),
                env={**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}"},
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await process.communicate()
            return json.loads(out)

        listed = await inspect("--method", "tools/list")
        assert [t["name"] for t in listed["tools"]][:3] == [
            "tool_search",
            "describe_tools",
            "call_tool",
        ]
        called = await inspect(
            *("--method", "tools/call", "--tool-name", "tool_search"),
            *("--tool-arg", "query=echo a message"),
        )
        assert "everything__echo" in json.dumps(called)
