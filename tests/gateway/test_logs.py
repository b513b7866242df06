"""What a gateway that is asked to be verbose tells on stderr."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from fastmcp import Client
from tests.gateway.conftest import Serve, small

from toolscout.events import UpstreamLostEvent
from toolscout.telemetry.logs import render_event

SECRET = "hush-hush-value"


class Told:
    """The lines that a process writes to stderr."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self.lines: list[str] = []

    async def line(self, part: str) -> str:
        """A line with this in it, told already or yet to be told."""
        async with asyncio.timeout(60):
            while not (found := [line for line in self.lines if part in line]):
                line = (await self._stream.readline()).decode()
                assert line, f"{part!r} was not told: {self.lines}"
                self.lines.append(line)
            return found[0]


async def test_a_verbose_gateway_tells_what_happens_and_no_arguments(tmp_path: Path) -> None:
    one = {**small("told", str(tmp_path)), "env": {"KEY": SECRET}, "idle_seconds": 0.2}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    definition = {"name": "count", "description": "Count.", "inputSchema": schema}
    (tmp_path / "tool.json").write_text(json.dumps(definition))
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"one": one}}))
    serving = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "toolscout.cli", "serve", "--config", str(path)),
        *("--http", "127.0.0.1:0", "--verbose"),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TOOLSCOUT_HOME": str(tmp_path / "home"), "TOOLSCOUT_EMBEDDER": "none"},
    )
    assert serving.stderr is not None
    told = Told(serving.stderr)
    try:
        found = re.search(r"http://\S+/mcp", await told.line("Toolscout serves"))
        assert found is not None
        async with Client(found[0], mode="legacy") as client:

            async def call(**arguments: Any) -> None:
                asked = {"name": "one__count", "arguments": arguments}
                await client.call_tool("call_tool", asked, raise_on_error=False)

            await call(n=1, text=SECRET)
            await told.line("server one: awake")
            await told.line("call: one__count: ok")
            await call(n=SECRET)
            await told.line("refused: one__count (invalid_arguments)")
            await client.call_tool("tool_search", {"query": SECRET})
            await told.line("tool_search: ")
        await told.line("server one: asleep")
        path.write_text(json.dumps({"mcpServers": {"one": one, "two": small()}}))
        await told.line("configuration: reloaded")
        await told.line("server two: configured")
    finally:
        serving.terminate()
        rest = (await serving.stderr.read()).decode()
        await serving.wait()
    assert SECRET not in "".join(told.lines) + rest


async def test_what_is_held_back_is_told_in_a_line(serve: Serve) -> None:
    async with serve({"evil": small("shadows")}) as running, running.client() as client:
        await client.call_tool("tool_search", {"query": "honest"})
        lines = [render_event(event) for event in running.events]
    assert any(line.startswith("held: tool_search of evil (") for line in lines)


def test_a_line_is_one_line_whatever_a_server_said() -> None:
    said = "gone\n\x1b[31mTraceback\n" + "x" * 5_000
    line = render_event(UpstreamLostEvent(server="a", reason=said))
    assert line.startswith("server a: lost. gone [31mTraceback")
    assert len(line) <= 300
    assert "\x1b" not in line
    assert "\n" not in line
