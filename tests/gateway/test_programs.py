"""Code mode through the gateway, for clients of both generations of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitResult, InputRequiredResult
from tests.gateway.conftest import Serve, small, text
from tests.upstreams.processes import free_port

GENERATIONS = ["legacy", "2026-07-28"]
QUESTIONER = str(Path(__file__).parent.parent / "upstreams" / "questioner.py")
DESK = {"command": sys.executable, "args": [QUESTIONER]}
CODE = {"gateway": {"profile": "code", "confirm": "destructive"}}


def saying(action: str, heard: list[str], **content: Any) -> Any:
    async def answered(_: Any, params: Any) -> ElicitResult:
        heard.append(params.message)
        return ElicitResult.model_validate({"action": action, "content": content})

    return answered


async def run(client: Any, code: str, **options: Any) -> Any:
    return await client.call_tool("run_code", {"code": code}, **options)


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_client_finds_stubs_and_runs_a_program(serve: Serve, mode: str) -> None:
    async with serve({"one": small("hints")}, **CODE) as running, running.client(mode) as client:
        names = [t.name for t in (await client.list_tools()).tools]
        assert {"tool_search", "describe_tools", "run_code"} <= {*names}
        assert not any("one__" in name for name in names)
        found = text(await client.call_tool("tool_search", {"query": "look"}))
        assert "async def look(self, *, text: str" in found
        result = await run(client, "[await one.look(text=t) for t in ('a', 'b')]")
        assert text(result) == '["a", "b"]'
        wrong = await run(client, "await one.look(words='a')")
        assert wrong.is_error
        assert "Nothing ran" in text(wrong)


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_program_asks_before_a_destructive_call(serve: Serve, mode: str) -> None:
    heard: list[str] = []
    code = "[await one.change(text=t) for t in ('a', 'b')]"
    async with serve({"one": small("hints")}, **CODE) as running:
        async with running.client(mode, elicitation_callback=saying("accept", heard)) as client:
            assert text(await run(client, code)) == '["a", "b"]'
            assert [q.split("?")[0] for q in heard] == [
                'Run one__change with {"text":"a"}',
                'Run one__change with {"text":"b"}',
            ]
        async with running.client(mode, elicitation_callback=saying("decline", heard)) as client:
            refused = await run(client, code)
            assert refused.is_error
            assert "one__change was not run" in text(refused)
        async with running.client(mode) as client:  # it cannot be asked
            assert "was not run" in text(await run(client, code))


@pytest.mark.parametrize("mode", GENERATIONS)
@pytest.mark.parametrize("upstream", ["handshake", "stateless"])
async def test_a_program_waits_for_the_answer_to_a_question(
    serve: Serve,
    mode: str,
    upstream: str,
) -> None:
    heard: list[str] = []
    answer = saying("accept", heard, name="Ann")
    code = "x = await desk.register()\nx[1]['content']['name']"
    async with (
        asyncio.timeout(60),
        serve({"desk": {**DESK, "protocol": upstream}}, **CODE) as running,
        running.client(mode, elicitation_callback=answer) as client,
    ):
        result = await run(client, code)
        assert text(result) == "Ann"
        assert heard == ["Who are you?"]


SERVER = """
import sys
from fastmcp import FastMCP

app = FastMCP("one")

def note(word: str) -> str:
    with open(sys.argv[1], "a") as file:
        file.write(word + "\\n")
    return word

@app.tool(annotations={"readOnlyHint": False, "destructiveHint": False})
def count() -> str:
    return note("count")

@app.tool(annotations={"destructiveHint": True})
def erase() -> str:
    return note("erase")

app.run("stdio", show_banner=False)
"""


@contextmanager
def gateway(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "toolscout", "serve", "--config", str(folder / "mcp.json")]
    with subprocess.Popen(
        [*command, "--http", f"127.0.0.1:{port}", "--wait", "60"],
        env={**os.environ, "TOOLSCOUT_HOME": str(folder / "home"), "TOOLSCOUT_EMBEDDER": "none"},
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if "Ready" in line or "Listening" in line or "http://" in line:
                break
        try:
            yield process
        finally:
            process.kill()


async def test_after_kill_9_of_the_gateway_the_answer_continues_the_program(
    tmp_path: Path,
) -> None:
    effects = tmp_path / "effects"
    (tmp_path / "server.py").write_text(SERVER)
    servers = {
        "one": {"command": sys.executable, "args": [str(tmp_path / "server.py"), str(effects)]}
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers, **CODE}))
    port = free_port()
    code = "n = await one.count()\n[n, await one.erase()]"
    url = f"http://127.0.0.1:{port}/mcp"
    with gateway(tmp_path, port) as first:
        async with Client(
            url, mode="2026-07-28", elicitation_callback=saying("accept", [])
        ) as client:
            asked = await client.session.call_tool(
                "run_code", {"code": code}, allow_input_required=True
            )
            assert isinstance(asked, InputRequiredResult)
        os.kill(first.pid, signal.SIGKILL)
    assert effects.read_text() == "count\n"
    with gateway(tmp_path, port):
        async with Client(
            url, mode="2026-07-28", elicitation_callback=saying("accept", [])
        ) as client:
            done = await client.session.call_tool(
                "run_code",
                {"code": code},
                input_responses={"question": ElicitResult(action="accept", content={})},
                request_state=asked.request_state,
            )
    assert text(done) == '["count", "erase"]'
    assert effects.read_text() == "count\nerase\n"
