"""Limits of one server: a call beyond them is refused with a status, and has not run."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.gateway.conftest import SMALL, Running, Serve, small, text
from tests.gateway.test_limits import HEADERS, VERSION, initialize, rpc

MODES = ["legacy", "2026-07-28"]
UPSTREAM = str(Path(__file__).parent / "conformance" / "upstream.py")
ALL: dict[str, Any] = {"command": sys.executable, "args": [UPSTREAM], "prefix": False}


def call(key: int, text: str = "x") -> dict[str, Any]:
    return rpc("tools/call", {"name": "one__echo", "arguments": {"text": text}}, key=key)


@asynccontextmanager
async def raw_session(running: Running) -> AsyncIterator[httpx2.AsyncClient]:
    """An HTTP client in an open session of the protocol."""
    headers = {**HEADERS, "mcp-protocol-version": VERSION}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        opened = await http.post(running.url, json=initialize())
        http.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        yield http


async def read_stream(
    http: httpx2.AsyncClient, url: str, message: dict[str, Any]
) -> tuple[int, float, str]:
    """The status of an answer, when it began, and its body."""
    async with http.stream("POST", url, json=message) as response:
        opened = time.monotonic()
        return response.status_code, opened, (await response.aread()).decode()


@asynccontextmanager
async def one_call_running(running: Running, folder: Path) -> AsyncIterator[None]:
    """A call that takes the only place of the server until the block ends."""
    async with running.client() as client:
        task = asyncio.create_task(client.call_tool("one__echo", {"text": "first"}))
        while not running.gateway.upstreams.states()[0].in_flight:
            await asyncio.wait([task], timeout=0.05)
        try:
            yield
        finally:
            await asyncio.to_thread((folder / "gate").write_text, "go")
        assert text(await task) == "first"


@pytest.mark.parametrize("limits", [{"queue": 0}, {"queue": 5}], ids=["full", "waits"])
async def test_a_busy_server_is_a_503_within_a_second_or_so(
    serve: Serve, tmp_path: Path, limits: dict[str, int]
) -> None:
    os.mkfifo(tmp_path / "gate")
    busy = {**small("gated", str(tmp_path)), "concurrency": 1, **limits}
    async with serve({"one": busy}) as running, raw_session(running) as http:
        async with one_call_running(running, tmp_path):
            started = time.monotonic()
            refused = await http.post(running.url, json=call(2))
            took = time.monotonic() - started
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        body = refused.json()
        assert body["id"] == 2
        assert body["error"]["data"] == {"status": 503, "retry_after_seconds": 1}
        assert "has not run. Try again in 1 second." in body["error"]["message"]
        assert took < 1.4


async def test_a_client_gets_the_refusal_as_an_error_of_the_protocol(
    serve: Serve, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    busy = {**small("gated", str(tmp_path)), "concurrency": 1, "queue": 0}
    async with (
        serve({"one": busy}) as running,
        running.client("2026-07-28") as client,
        one_call_running(running, tmp_path),
    ):
        for name, arguments in (
            ("one__echo", {"text": "x"}),
            ("call_tool", {"name": "one__echo", "arguments": {"text": "x"}}),
        ):
            with pytest.raises(MCPError, match="has not run") as caught:
                await client.call_tool(name, arguments)
            assert caught.value.error.data == {"status": 503, "retry_after_seconds": 1}


async def test_a_client_that_can_resume_its_stream_gets_the_refusal_as_a_result(
    serve: Serve, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    busy = {**small("gated", str(tmp_path)), "concurrency": 1, "queue": 0}
    async with (
        serve({"one": busy}) as running,
        running.client("legacy") as client,
        one_call_running(running, tmp_path),
    ):
        refused = await client.call_tool("one__echo", {"text": "x"})
        assert refused.is_error
        assert "has not run. Try again in 1 second." in text(refused)
        assert refused.meta
        assert refused.meta["toolscout/retry_after_seconds"] == 1


async def test_too_many_calls_a_minute_are_a_429(serve: Serve) -> None:
    limited = {**SMALL, "calls_per_minute": 6}
    async with serve({"one": limited}) as running, raw_session(running) as http:
        assert (await http.post(running.url, json=call(2))).status_code == 200
        refused = await http.post(running.url, json=call(3))
        assert refused.status_code == 429
        assert 8 <= int(refused.headers["retry-after"]) <= 10
        assert "at most 6 calls a minute" in refused.json()["error"]["message"]


async def test_a_call_that_waits_longer_than_its_headers_gets_the_refusal_as_its_result(
    serve: Serve, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    busy = {**small("gated", str(tmp_path)), "concurrency": 1, "queue_seconds": 2.5}
    async with serve({"one": busy}) as running, running.client() as client:
        first, second = (
            asyncio.create_task(client.call_tool("one__echo", {"text": name}))
            for name in ("first", "second")
        )
        while not running.gateway.upstreams.states()[0].in_flight:
            await asyncio.wait([first], timeout=0.05)
        async with raw_session(running) as http:
            started = time.monotonic()
            # The queue moves within the first second, so that the call continues to wait.
            opening = asyncio.create_task(read_stream(http, running.url, call(2)))
            await asyncio.wait([opening], timeout=0.3)
            await asyncio.to_thread((tmp_path / "gate").write_text, "go")
            status, opened, body = await opening
        await asyncio.to_thread((tmp_path / "gate").write_text, "go")
        assert {text(await first), text(await second)} == {"first", "second"}
        assert status == 200
        assert opened - started < 2.2  # its headers do not wait for the call
        assert "has not run. Try again in 1 second." in body
        assert '"toolscout/retry_after_seconds":1' in body.replace(": ", ":")


@pytest.mark.parametrize("mode", MODES)
async def test_a_read_over_a_limit_of_its_server_is_refused_too(serve: Serve, mode: str) -> None:
    async with (
        serve({"all": {**ALL, "calls_per_minute": 6}}) as running,
        running.client(mode, cache=None) as client,
    ):
        await client.read_resource("test://static-text")
        with pytest.raises(MCPError, match="has not run") as caught:
            await client.read_resource("test://static-text")
        assert caught.value.error.data["status"] == 429
        lines = (running.home / "state" / "audit.jsonl").read_text().splitlines()
        assert [json.loads(line)["outcome"] for line in lines] == ["ok", "over_limit"]


@asynccontextmanager
async def over_stdio(
    folder: Path, servers: dict[str, Any], mode: str, **tables: Any
) -> AsyncIterator[Client]:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers, **tables}))
    home = {"TOOLSCOUT_HOME": str(folder / "home"), "TOOLSCOUT_EMBEDDER": "none"}
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "toolscout.cli", "serve", "--stdio", "--config", str(path)],
        env={**os.environ, **home},
    )
    async with asyncio.timeout(60), Client(stdio_client(command), mode=mode, cache=None) as client:
        yield client


def outcomes(folder: Path) -> list[str]:
    lines = (folder / "home" / "state" / "audit.jsonl").read_text().splitlines()
    return [json.loads(line)["outcome"] for line in lines]


@pytest.mark.parametrize("mode", MODES)
async def test_over_stdio_the_result_says_that_the_call_has_not_run(
    tmp_path: Path, mode: str
) -> None:
    async with over_stdio(tmp_path, {"one": {**SMALL, "calls_per_minute": 6}}, mode) as client:
        assert text(await client.call_tool("one__echo", {"text": "x"})) == "x"
        refused = await client.call_tool("one__echo", {"text": "x"})
        assert refused.is_error
        assert "The call has not run. Try again in" in text(refused)
        assert refused.meta
        assert 8 <= refused.meta["toolscout/retry_after_seconds"] <= 10
    assert outcomes(tmp_path) == ["ok", "over_limit"]


@pytest.mark.parametrize("mode", MODES)
async def test_over_stdio_calls_beyond_the_limit_of_the_gateway_are_errors(
    tmp_path: Path, mode: str
) -> None:
    os.mkfifo(tmp_path / "gate")
    waits = {"one": small("gated", str(tmp_path))}
    async with over_stdio(tmp_path, waits, mode, limits={"calls": 1}) as client:
        calls = [
            asyncio.create_task(client.call_tool("one__echo", {"text": "x"})) for _ in range(3)
        ]
        done: set[asyncio.Task[Any]] = set()
        while len(done) < 2:
            done, _ = await asyncio.wait(calls, return_when="FIRST_COMPLETED", timeout=0.1)
        for each in done:
            error = each.exception()
            assert isinstance(error, MCPError)
            assert error.error.data == {"status": 503, "retry_after_seconds": 1}
        (left,) = set(calls) - done
        await asyncio.to_thread((tmp_path / "gate").write_text, "go")
        assert text(await left) == "x"
    assert sorted(outcomes(tmp_path)) == ["ok", "over_limit", "over_limit"]
