"""Limits on clients over HTTP: what is too much or too slow is refused, and the rest is served."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError
from tests.gateway.conftest import SMALL, Serve, small, text

VERSION = "2025-06-18"
TOKEN = {"ann": "ann-has-a-long-secret", "bob": "bob-has-a-long-secret"}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


WHOLE = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def address(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").partition("/")[0].split(":")
    return host, int(port)


def base(url: str) -> str:
    return url.removesuffix("/mcp")


@asynccontextmanager
async def connect(
    url: str, sent: bytes = b""
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection on which some bytes are sent, and nothing more."""
    reader, writer = await asyncio.open_connection(*address(url))
    writer.write(sent)
    try:
        yield reader, writer
    finally:
        writer.close()


def post_head(length: int) -> bytes:
    lines = ["POST /mcp HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in HEADERS.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def rpc(method: str, params: dict[str, Any] | None = None, key: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": key, "method": method, "params": params or {}}


def initialize() -> dict[str, Any]:
    info = {"name": "test", "version": "1"}
    return rpc("initialize", {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": info})


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(20):
        return await reader.read()


@asynccontextmanager
async def unfinished(url: str, count: int) -> AsyncIterator[None]:
    """Connections on which the gateway waits for the body of a request."""
    head = post_head(1_000)[:-2] + b"Expect: 100-continue\r\n\r\n"
    async with AsyncExitStack() as stack:
        for _ in range(count):
            reader, _ = await stack.enter_async_context(connect(url, head))
            await reader.readuntil(b"100 Continue\r\n")  # it has begun to read
        yield


async def test_a_client_that_sends_no_headers_is_cut_off(serve: Serve) -> None:
    async with (
        serve({"one": SMALL}, limits={"header_seconds": 0.3}) as running,
        connect(running.url) as (reader, _),
    ):
        assert b"408" in await until_closed(reader)


async def test_a_client_that_sends_headers_slowly_is_cut_off(serve: Serve) -> None:
    async with (
        serve({"one": SMALL}, limits={"header_seconds": 0.5}) as running,
        connect(running.url, b"GET /health HTTP/1.1\r\n") as (reader, writer),
    ):
        ended = asyncio.create_task(until_closed(reader))
        while not ended.done():  # one header after another: each alone comes in time
            writer.write(b"X-More: 1\r\n")
            await asyncio.wait([ended], timeout=0.1)
        assert b"408" in ended.result()


async def test_the_second_request_of_a_connection_has_the_same_time_for_its_headers(
    serve: Serve,
) -> None:
    async with (
        serve({"one": SMALL}, limits={"header_seconds": 0.5}) as running,
        connect(running.url, WHOLE) as (reader, writer),
    ):
        assert b"HTTP/1.1 200" in await reader.readuntil(b"live")
        writer.write(b"GET /health")
        assert b"HTTP/1.1 408" in await until_closed(reader)


async def test_an_idle_connection_is_closed_after_its_time(serve: Serve) -> None:
    async with (
        serve({"one": SMALL}, limits={"keep_alive_seconds": 0.1}) as running,
        connect(running.url, WHOLE) as (reader, _),
        asyncio.timeout(4),  # uvicorn alone takes five seconds
    ):
        assert (await until_closed(reader)).endswith(b"live")


async def test_idle_connections_make_room_for_new_ones(serve: Serve) -> None:
    async with (
        serve({"one": SMALL}, limits={"connections": 16}) as running,
        AsyncExitStack() as stack,
        httpx2.AsyncClient() as http,
    ):
        idle = [await stack.enter_async_context(connect(running.url, WHOLE)) for _ in range(16)]
        for reader, _ in idle:
            await reader.readuntil(b"live")
        said = await http.post(running.url, json=initialize(), headers=HEADERS)
        assert said.status_code == 200
        assert await until_closed(idle[0][0]) == b""


async def test_a_slow_answer_does_not_count_as_a_slow_request(serve: Serve, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    waits = small("gated", str(tmp_path))
    async with (
        serve({"one": waits}, limits={"header_seconds": 0.2, "request_seconds": 0.2}) as running,
        running.client() as client,
    ):
        call = asyncio.create_task(client.call_tool("one__echo", {"text": "late"}))
        while not running.gateway.upstreams.states()[0].in_flight:
            await asyncio.wait([call], timeout=0.05)
        await asyncio.wait([call], timeout=0.6)
        assert not call.done()
        await asyncio.to_thread((tmp_path / "gate").write_text, "go")
        assert text(await call) == "late"


async def test_a_body_that_is_too_large_is_refused(serve: Serve) -> None:
    async with (
        serve({"one": SMALL}, limits={"request_bytes": 1_000}) as running,
        httpx2.AsyncClient() as http,
    ):
        said = await http.post(running.url, content=b"x" * 2_000, headers=HEADERS)
        assert said.status_code == 413

        async def parts() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"x" * 100

        unsaid = await http.post(running.url, content=parts(), headers=HEADERS)
        assert unsaid.status_code == 413
        assert (await http.post(running.url, json=initialize(), headers=HEADERS)).is_success


async def test_a_body_that_never_ends_arriving_is_refused(serve: Serve) -> None:
    async with (
        serve({"one": SMALL}, limits={"request_seconds": 0.3}) as running,
        connect(running.url, post_head(1_000) + b"{") as (reader, _),
    ):
        assert b"HTTP/1.1 408" in await until_closed(reader)


async def test_bodies_that_arrive_together_have_a_limit(serve: Serve) -> None:
    limits = {"request_buffer_bytes": 3_000, "request_seconds": 30}
    async with serve({"one": SMALL}, limits=limits) as running:
        half = post_head(2_000) + b"x" * 1_900
        async with connect(running.url, half), connect(running.url, half) as (reader, _):
            answer = await until_closed(reader)
        assert b"HTTP/1.1 503" in answer
        assert b"retry-after: 1" in answer


async def test_connections_in_all_have_a_limit_and_health_still_answers(serve: Serve) -> None:
    async with serve({"one": SMALL}, limits={"connections": 3}) as running:
        async with unfinished(running.url, 3), httpx2.AsyncClient() as http:
            health = await http.get(f"{base(running.url)}/health")
            assert health.json()["live"] is True
            refused = await http.get(f"{base(running.url)}/metrics")
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        async with running.client() as client:  # as soon as they are gone
            assert await client.list_tools()


async def test_connections_of_one_address_have_a_limit(serve: Serve) -> None:
    async with serve({"one": SMALL}, limits={"connections_per_address": 2}) as running:
        async with unfinished(running.url, 2), httpx2.AsyncClient() as http:
            refused = await http.get(f"{base(running.url)}/metrics")
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"


async def test_sockets_that_send_nothing_make_room_for_a_client_that_does(serve: Serve) -> None:
    limits = {"connections": 20, "header_seconds": 60}
    async with serve({"one": SMALL}, limits=limits) as running:
        silent = [await asyncio.open_connection(*address(running.url)) for _ in range(100)]
        async with asyncio.timeout(20), running.client() as client:
            assert text(await client.call_tool("one__echo", {"text": "served"})) == "served"
        for _, writer in silent:
            writer.close()


async def test_sessions_in_all_have_a_limit(serve: Serve) -> None:
    async with (
        serve({"one": SMALL}, limits={"sessions": 2}) as running,
        httpx2.AsyncClient(headers=HEADERS) as http,
    ):
        opened = [await http.post(running.url, json=initialize()) for _ in range(3)]
        assert [answer.status_code for answer in opened] == [200, 200, 503]
        assert opened[2].headers["retry-after"] == "1"
        assert "Too many sessions" in opened[2].json()["error"]["message"]
        session = {"mcp-session-id": opened[0].headers["mcp-session-id"]}
        await http.delete(running.url, headers=session)
        assert (await http.post(running.url, json=initialize())).status_code == 200


async def test_sessions_opened_at_once_cannot_exceed_the_limit(serve: Serve) -> None:
    async with (
        serve({"one": SMALL}, limits={"sessions": 2}) as running,
        httpx2.AsyncClient(headers=HEADERS) as http,
    ):
        asked = (http.post(running.url, json=initialize()) for _ in range(10))
        opened = [answer.status_code for answer in await asyncio.gather(*asked)]
        assert sorted(opened) == [200] * 2 + [503] * 8


async def test_sessions_of_one_principal_have_a_limit(serve: Serve) -> None:
    limits = {"sessions_per_principal": 1}
    async with (
        serve({"one": SMALL}, limits=limits, auth={"tokens": TOKEN}) as running,
        httpx2.AsyncClient(headers=HEADERS) as http,
    ):
        opened: list[int] = []
        for name in ("ann", "ann", "bob"):
            login = {"authorization": f"Bearer {TOKEN[name]}"}
            opened.append(
                (await http.post(running.url, json=initialize(), headers=login)).status_code
            )
        assert opened == [200, 429, 200]


def listen(key: int) -> dict[str, Any]:
    meta = {
        types.PROTOCOL_VERSION_META_KEY: "2026-07-28",
        types.CLIENT_INFO_META_KEY: {"name": "test", "version": "1"},
        types.CLIENT_CAPABILITIES_META_KEY: {},
    }
    wanted = {"notifications": {"toolsListChanged": True}, "_meta": meta}
    return rpc("subscriptions/listen", wanted, key)


@pytest.mark.parametrize(
    ("limits", "statuses"),
    [
        ({"streams_per_principal": 2}, {"ann": [200, 200, 429], "bob": [200]}),
        ({"streams": 3}, {"ann": [200, 200, 200, 503], "bob": [503]}),
        ({"calls": 1, "calls_per_principal": 1}, {"ann": [200, 200], "bob": [200]}),
    ],
)
async def test_streams_that_listen_have_a_limit(
    serve: Serve, limits: dict[str, int], statuses: dict[str, list[int]]
) -> None:
    version = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
    async with (
        serve({"one": SMALL}, limits=limits, auth={"tokens": TOKEN}) as running,
        httpx2.AsyncClient(headers={**HEADERS, **version}, timeout=30) as http,
    ):

        async def open_stream(stack: AsyncExitStack, name: str) -> httpx2.Response:
            login = {"authorization": f"Bearer {TOKEN[name]}"}
            asked = http.stream("POST", running.url, json=listen(1), headers=login)
            response = await stack.enter_async_context(asked)
            if response.status_code == 200:
                lines = response.aiter_lines()
                stack.push_async_callback(lines.aclose)  # type: ignore[attr-defined]
                while "acknowledged" not in await anext(lines):
                    pass
            else:
                assert response.headers["retry-after"] == "1"
                assert json.loads(await response.aread())["error"]["code"] == -32029
            return response

        async with AsyncExitStack() as stack:
            for name, expected in statuses.items():
                opened = [await open_stream(stack, name) for _ in expected]
                assert [each.status_code for each in opened] == expected
            async with logged_in(running.url, "ann", "legacy") as ann:  # streams are not calls
                assert await ann.call_tool("one__echo", {"text": "x"})
        async with asyncio.timeout(30), AsyncExitStack() as stack:
            # Streams that were closed no longer count.
            while (await open_stream(stack, "ann")).status_code != 200:
                pass


async def test_opening_streams_counts_in_the_calls_of_a_minute(serve: Serve) -> None:
    limits = {"calls_per_minute": 12}  # two at once, then one in five seconds
    async with (
        serve({"one": SMALL}, limits=limits, auth={"tokens": TOKEN}) as running,
        logged_in(running.url, "ann", "2026-07-28") as ann,
    ):

        async def open_and_close() -> None:
            async with ann.listen(tools_list_changed=True):
                pass

        opened = await asyncio.gather(
            *(open_and_close() for _ in range(10)), return_exceptions=True
        )
    refused = [each for each in opened if isinstance(each, MCPError)]
    assert len(refused) >= 8
    assert all("Too many calls in a minute" in str(each) for each in refused)


async def test_an_idle_session_ends(serve: Serve) -> None:
    async with (
        serve({"one": SMALL}, limits={"sessions": 1, "session_idle_seconds": 0.2}) as running,
        httpx2.AsyncClient(headers=HEADERS) as http,
    ):
        assert (await http.post(running.url, json=initialize())).status_code == 200
        async with asyncio.timeout(20):
            while (await http.post(running.url, json=initialize())).status_code != 200:
                pass


async def test_calls_in_all_have_a_limit_and_the_refusal_comes_at_once(
    serve: Serve, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    waits = small("gated", str(tmp_path))
    async with (
        serve({"one": waits}, limits={"calls": 2}) as running,
        running.client() as one,
        running.client("legacy") as other,
    ):
        calls = [
            asyncio.create_task(each.call_tool("one__echo", {"text": "x"})) for each in (one, other)
        ]
        while running.gateway.upstreams.states()[0].in_flight < 2:
            await asyncio.wait(calls, timeout=0.05)
        for client in (one, other):
            async with asyncio.timeout(5):
                with pytest.raises(MCPError, match="too many calls are running") as caught:
                    await client.call_tool("tool_search", {"query": "echo"})
            assert caught.value.error.data == {"status": 503, "retry_after_seconds": 1}
        open_calls = set(calls)
        while open_calls:  # one after the other goes through the gate
            await asyncio.to_thread((tmp_path / "gate").write_text, "go")
            _, open_calls = await asyncio.wait(open_calls, return_when="FIRST_COMPLETED")
        assert [text(each) for each in await asyncio.gather(*calls)] == ["x", "x"]
        assert await one.call_tool("tool_search", {"query": "echo"})


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_calls_a_minute_of_one_principal_have_a_limit(serve: Serve, mode: str) -> None:
    limits = {"calls_per_minute": 12}  # two at once, then one in five seconds
    async with serve({"one": SMALL}, limits=limits, auth={"tokens": TOKEN}) as running:
        async with logged_in(running.url, "ann", mode) as ann:
            calls = (ann.call_tool("one__echo", {"text": "x"}) for _ in range(10))
            done = await asyncio.gather(*calls, return_exceptions=True)
        refused = [each.error for each in done if isinstance(each, MCPError)]
        assert len(refused) >= 8
        for error in refused:
            assert error.message.startswith("Too many calls in a minute")
            assert error.data["status"] == 429
            assert error.data["retry_after_seconds"] <= 5
        async with logged_in(running.url, "bob", mode) as bob:
            assert await bob.call_tool("one__echo", {"text": "x"})


@pytest.mark.parametrize("message", ["progress", "ping", "answer", "broken"])
async def test_messages_that_are_not_calls_have_a_limit_of_their_own(
    serve: Serve, message: str
) -> None:
    sent: dict[str, Any] = {
        "progress": {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": 1, "progress": 1},
        },
        "ping": rpc("ping"),
        "answer": {"jsonrpc": "2.0", "id": 99, "result": {}},
        "broken": [],
    }
    limits = {"notifications_per_minute": 18, "calls_per_minute": 12}  # three and two at once
    async with (
        serve({"one": SMALL}, limits=limits, auth={"tokens": TOKEN}) as running,
        httpx2.AsyncClient(headers=HEADERS, timeout=60) as http,
    ):
        login = {"authorization": f"Bearer {TOKEN['ann']}"}
        opened = await http.post(running.url, json=initialize(), headers=login)
        session = {**login, "mcp-session-id": opened.headers["mcp-session-id"]}
        answers = [
            await http.post(running.url, json=sent[message], headers=session) for _ in range(8)
        ]
        late = answers[-1]
        assert answers[0].status_code != 429
        assert late.status_code == 429
        assert int(late.headers["retry-after"]) >= 1
        assert "Too many notifications" in late.text
        listed = await http.post(running.url, json=rpc("tools/list"), headers=session)
        assert listed.status_code == 200, "calls have a limit of their own"
        bob = {"authorization": f"Bearer {TOKEN['bob']}"}
        assert (await http.post(running.url, json=initialize(), headers=bob)).status_code == 200
    audit = (running.home / "state" / "audit.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in audit]
    refused = [line for line in lines if line["outcome"] == "over_limit"]
    assert refused
    assert all(line["tool"] == "" for line in refused)


@asynccontextmanager
async def logged_in(url: str, name: str, mode: str) -> AsyncIterator[Client]:
    from mcp.client.streamable_http import streamable_http_client

    login = {"authorization": f"Bearer {TOKEN[name]}"}
    async with httpx2.AsyncClient(headers=login, timeout=60) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, cache=None) as client:
            yield client


async def test_the_call_of_a_client_that_left_still_counts(serve: Serve, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    waits = small("gated", str(tmp_path))
    async with (
        serve({"one": waits}, limits={"calls": 1}) as running,
        httpx2.AsyncClient(headers={**HEADERS, "mcp-protocol-version": VERSION}) as http,
    ):
        opened = await http.post(running.url, json=initialize())
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        call = rpc("tools/call", {"name": "one__echo", "arguments": {"text": "x"}}, key=2)
        request = asyncio.create_task(http.post(running.url, json=call, headers=session))
        while not running.gateway.upstreams.states()[0].in_flight:
            await asyncio.wait([request], timeout=0.05)
        request.cancel()  # a call of the handshake versions goes on, for a client that comes back
        await asyncio.gather(request, return_exceptions=True)
        refused = await http.post(running.url, json={**call, "id": 3}, headers=session)
        assert refused.status_code == 503
        await asyncio.to_thread((tmp_path / "gate").write_text, "go")


@contextmanager
def process(folder: Path, *, files: int) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """A real `toolscout serve` that may open only a few files; its address, and its log."""
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"one": SMALL}}))
    log = folder / "log.txt"
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "toolscout.cli", "serve", "--config", "mcp.json", "--http", "0"],
            cwd=folder,
            env={**os.environ, "TOOLSCOUT_HOME": str(folder / "h"), "TOOLSCOUT_EMBEDDER": "none"},
            stderr=stderr,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),
        ) as running,
    ):
        try:
            while not (found := re.search(rb"http://\S+/mcp", log.read_bytes())):
                assert running.poll() is None
            yield running, found[0].decode(), log
        finally:
            running.terminate()


async def test_more_sockets_than_files_neither_block_health_nor_fill_the_log(
    tmp_path: Path,
) -> None:
    with process(tmp_path, files=256) as (_, url, log):
        silent = [await asyncio.open_connection(*address(url)) for _ in range(300)]
        async with asyncio.timeout(20), httpx2.AsyncClient() as http:
            for _ in range(10):
                assert (await http.get(f"{base(url)}/health")).json()["live"] is True
        for _, writer in silent:
            writer.close()
    assert log.stat().st_size < 20_000


async def test_a_flood_of_broken_requests_writes_few_lines(tmp_path: Path) -> None:
    with process(tmp_path, files=1_024) as (_, url, log):
        for _ in range(300):
            async with connect(url, b"nonsense\r\n\r\n") as (reader, _writer):
                assert b"400" in await until_closed(reader)
    assert log.read_text().count("Invalid HTTP request") <= 20
