"""A stream that breaks off in the middle of a call is taken up again, and the call ran once."""

from __future__ import annotations

import asyncio
import json
import os
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.streamable_http import EventMessage
from mcp_types import JSONRPCNotification, JSONRPCResponse
from tests.gateway.conftest import Running, Serve, small, text

from toolscout.gateway.client.event_store import MemoryEventStore

VERSION = "2025-11-25"
HELLO = {
    "protocolVersion": VERSION,
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}
ECHO = {"name": "call_tool", "arguments": {"name": "slow__echo", "arguments": {"text": "done"}}}


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A pipe that a gated call waits at."""
    os.mkfifo(tmp_path / "gate")
    return tmp_path / "gate"


async def release(gate: Path) -> None:
    """Let the call go on, once it is there."""
    await asyncio.to_thread(gate.write_text, "go")


async def events(response: httpx2.Response) -> AsyncIterator[dict[str, str]]:
    """The events of a stream, as their fields."""
    event: dict[str, str] = {}
    async for line in response.aiter_lines():
        key, found, value = line.partition(": ")
        if found and key:
            event[key] = value
        elif line.startswith("data:"):
            event["data"] = ""
        elif not line and event:
            yield event
            event = {}


class Raw:
    """A client down at the wire: it sees the events, and drops connections as it likes."""

    def __init__(self, url: str, http: httpx2.AsyncClient) -> None:
        self.url = url
        self.http = http
        self.headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
        }

    async def greet(self) -> None:
        async with self.post("initialize", HELLO) as response:
            self.headers["Mcp-Session-Id"] = response.headers["mcp-session-id"]
            [_ async for _ in events(response)]
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self.http.post(self.url, json=note, headers=self.headers)

    @asynccontextmanager
    async def post(self, method: str, params: Any) -> AsyncIterator[httpx2.Response]:
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        async with self.http.stream("POST", self.url, json=body, headers=self.headers) as response:
            yield response

    @asynccontextmanager
    async def resume(self, last: str) -> AsyncIterator[httpx2.Response]:
        headers = {**self.headers, "Last-Event-ID": last}
        async with self.http.stream("GET", self.url, headers=headers) as response:
            yield response

    async def taken_up(self, last: str) -> list[dict[str, str]]:
        """What came after an event, up to the answer.

        An answer that comes while the SDK changes from old events to new ones is sent only to
        whoever comes back once more, as clients do.
        """
        async with asyncio.timeout(60):
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(3), self.resume(last) as response:
                        return [event async for event in first(events(response), "result")]

    async def begin(self) -> str:
        """Call a tool and drop the connection at the first event, whose id it gives."""
        async with self.post("tools/call", ECHO) as response:
            async for event in events(response):
                assert event["data"] == ""
                assert event["retry"] == "1000"
                return event["id"]
        raise AssertionError("no event came")


@asynccontextmanager
async def raw(running: Running) -> AsyncIterator[Raw]:
    async with httpx2.AsyncClient(timeout=60) as http:
        client = Raw(running.url, http)
        await client.greet()
        yield client


def answer(event: dict[str, str]) -> str:
    return json.loads(event["data"])["result"]["content"][0]["text"]


async def test_a_reply_that_came_while_the_client_was_away_is_got_on_return(
    serve: Serve, gate: Path
) -> None:
    servers = {"slow": small("gated", str(gate.parent))}
    async with serve(servers) as running, raw(running) as client:
        last = await client.begin()
        await release(gate)
        async with asyncio.timeout(60), running.client() as other:
            while running.gateway.upstreams.states()[0].in_flight:
                await other.list_tools(cache_mode="bypass")
            await other.list_tools(cache_mode="bypass")
        assert [answer(event) for event in await client.taken_up(last)] == ["done"]
        assert (gate.parent / "calls.txt").read_text().splitlines() == ["echo"]


async def test_a_client_that_returns_early_waits_on_for_its_reply(serve: Serve, gate: Path) -> None:
    servers = {"slow": small("gated", str(gate.parent))}
    async with serve(servers) as running, raw(running) as client:
        last = await client.begin()
        async with asyncio.timeout(60), client.resume(last) as response:
            coming = events(response)
            assert (await anext(coming))["data"] == "", "it is connected again"
            await release(gate)
            assert answer(await anext(coming)) == "done"
        assert (gate.parent / "calls.txt").read_text().splitlines() == ["echo"]


async def test_an_older_client_is_sent_no_event_without_data_and_resumes_from_any_other(
    serve: Serve, talker: dict[str, Any]
) -> None:
    async with serve({"talker": talker}) as running, raw(running) as client:
        client.headers["MCP-Protocol-Version"] = "2025-03-26"
        count = {"name": "talker__count", "arguments": {"to": 3}}
        call = {"name": "call_tool", "arguments": count, "_meta": {"progressToken": 1}}
        async with client.post("tools/call", call) as response:
            seen = await anext(events(response))
            assert seen["data"]
        rest = await client.taken_up(seen["id"])
        assert answer(rest[-1]) == "counted to 3"
        assert seen["data"] not in [e["data"] for e in rest]


async def test_nobody_takes_up_the_stream_of_another(serve: Serve, gate: Path) -> None:
    servers = {"slow": small("gated", str(gate.parent))}
    async with serve(servers) as running, raw(running) as client, raw(running) as thief:
        last = await client.begin()
        await release(gate)
        assert answer((await client.taken_up(last))[-1]) == "done"
        async with asyncio.timeout(60), thief.resume(last) as response:
            assert [e async for e in events(response)] == []


async def first(
    coming: AsyncIterator[dict[str, str]], having: str
) -> AsyncIterator[dict[str, str]]:
    """Events up to the first that has something."""
    async for event in coming:
        yield event
        if having in event["data"]:
            return


class Wire:
    """A stretch of network before the gateway, which can be cut."""

    def __init__(self, host: str, port: int) -> None:
        self._place = (host, port)
        self._open: set[asyncio.StreamWriter] = set()
        self.cuts = 0

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._place)
        self._open |= {writer, back}
        try:
            await asyncio.gather(self._copy(reader, back), self._copy(there, writer))
        finally:
            self._open -= {writer, back}

    async def _copy(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        try:
            while part := await source.read(65_536):
                to.write(part)
                await to.drain()
        except ConnectionError:
            pass
        finally:
            to.close()

    def cut(self) -> None:
        self.cuts += len(self._open)
        for writer in list(self._open):
            writer.transport.abort()


async def test_the_official_client_gets_its_reply_over_a_network_that_was_cut(
    serve: Serve, gate: Path
) -> None:
    servers = {"slow": small("gated", str(gate.parent))}
    async with serve(servers) as running:
        parts = urlsplit(running.url)
        wire = Wire(parts.hostname or "", parts.port or 0)
        proxy = await asyncio.start_server(wire.carry, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        through = replace(running, url=f"http://127.0.0.1:{port}/mcp")
        async with asyncio.timeout(60), proxy, through.client("legacy") as client:
            call = asyncio.create_task(client.call_tool(ECHO["name"], ECHO["arguments"]))
            while not running.gateway.upstreams.states()[0].in_flight:
                await client.list_tools(cache_mode="bypass")
            wire.cut()
            await release(gate)
            assert text(await call) == "done"
        assert wire.cuts
        assert (gate.parent / "calls.txt").read_text().splitlines() == ["echo"]


def note(words: str) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method="m", params={"text": words})


def result(words: str) -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=1, result={"text": words})


def noise(size: int) -> str:
    """Text that hardly gets smaller by packing."""
    return b64encode(Random(size).randbytes(size)).decode()


async def replayed(replies: MemoryEventStore, last: str) -> tuple[str | None, list[Any]]:
    sent: list[Any] = []

    async def send(event: EventMessage) -> None:
        sent.append(event.message)

    return await replies.replay_events_after(last, send), sent


async def test_a_client_far_behind_still_gets_the_result() -> None:
    replies = MemoryEventStore()
    start = await replies.store_event("s", None)
    for i in range(500):
        await replies.store_event("s", note(str(i)))
    await replies.store_event("s", result("at last"))
    name, sent = await replayed(replies, start)
    assert name == "s"
    assert len(sent) == 100
    assert sent[-1] == result("at last")


async def test_streams_that_have_their_result_are_forgotten_before_those_that_wait() -> None:
    replies = MemoryEventStore(max_bytes=1_000)
    waiting = await replies.store_event("waits", None)
    done = await replies.store_event("done", None)
    await replies.store_event("done", result(noise(600)))
    await replies.store_event("other", result(noise(600)))
    assert await replayed(replies, done) == (None, [])
    await replies.store_event("waits", result("here"))
    assert await replayed(replies, waiting) == ("waits", [result("here")])


async def test_a_message_comes_back_as_it_was_however_much_it_says() -> None:
    replies = MemoryEventStore()
    start = await replies.store_event("s", None)
    said = [note("\u00e9\u4e2d\u0000\U0001f600" * 1_000), result("")]
    for message in said:
        await replies.store_event("s", message)
    assert replies.size_bytes < 1_000
    assert await replayed(replies, start) == ("s", said)


async def test_a_message_that_cannot_be_written_stops_no_stream() -> None:
    replies = MemoryEventStore()
    start = await replies.store_event("s", None)
    await replies.store_event("s", note("\ud800"))
    await replies.store_event("s", result("here"))
    assert await replayed(replies, start) == ("s", [result("here")])


@pytest.mark.parametrize("last", ["", "-", "nothing", "x-1", "x-one", "x-١"])
async def test_an_event_that_never_was_brings_nothing(last: str) -> None:
    assert await replayed(MemoryEventStore(), last) == (None, [])


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 900), st.booleans())))
async def test_stored_replies_stay_within_their_limits(steps: list[tuple[str, int, bool]]) -> None:
    replies = MemoryEventStore(max_bytes=2_000, max_finished=3)
    for name, size, is_last in steps:
        await replies.store_event(name, (result if is_last else note)(noise(size)))
        assert 0 <= replies.size_bytes <= 2_000
