"""A client whose gateway was killed resumes its streams at another one, as far as they got."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.fleet.replicas import Fleet, Replica, call
from tests.fleet.round_robin import round_robin
from tests.fleet.supervised import TOKEN, Supervised, wait_until

from toolscout.gateway.client.event_store import KeptEvent
from toolscout.gateway.fleet.sealed_events import stream_name
from toolscout.gateway.fleet.shared_events import SharedEvents, StreamOrigin, current_origin
from toolscout.store.postgres_events import PostgresEvents
from toolscout.store.sqlite_events import SqliteEvents

UPSTREAMS = Path(__file__).parents[1] / "upstreams"
ANN, BOB = "t0ken-of-ann-0123456789", "t0ken-of-bob-0123456789"
VERSION = "2025-11-25"
HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": VERSION}
HELLO = {
    "protocolVersion": VERSION,
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}
MAY_HAVE_RUN = "The call may have run"


def talker() -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(UPSTREAMS / "talker.py")]}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    effects = {"command": sys.executable, "args": [str(UPSTREAMS / "fleet_server.py")]}
    effects["args"] = [*effects["args"], str(tmp_path)]
    servers = {"talker": talker(), "work": effects}
    return Fleet(tmp_path, servers, auth={"tokens": {"ann": ANN, "bob": BOB}})


def message(method: str, params: Any, key: Any = None) -> dict[str, Any]:
    numbered = {} if key is None else {"id": key}
    return {"jsonrpc": "2.0", "method": method, "params": params, **numbered}


def tool_call(name: str, *, key: Any, **arguments: Any) -> dict[str, Any]:
    params = {"name": "call_tool", "arguments": {"name": name, "arguments": arguments}}
    return message("tools/call", {**params, "_meta": {"progressToken": 9}}, key)


async def events(response: httpx2.Response) -> AsyncIterator[dict[str, str]]:
    """The events of a stream, as their fields."""
    event: dict[str, str] = {}
    async for line in response.aiter_lines():
        name, found, value = line.partition(": ")
        if found and name:
            event[name] = value
        elif not line and event:
            yield event
            event = {}


@dataclass
class Caller:
    """A handshake client that sees the events, and whose requests go where the test says."""

    http: httpx2.AsyncClient
    headers: dict[str, str]

    async def open(self, url: str) -> None:
        opened = await self.http.post(
            url, json=message("initialize", HELLO, 1), headers=self.headers
        )
        self.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        note = message("notifications/initialized", {})
        assert (await self.http.post(url, json=note, headers=self.headers)).is_success

    async def begin(self, url: str, body: dict[str, Any], *, until: str) -> list[dict[str, str]]:
        """Send a request, and drop the connection at an event with some text."""
        seen: list[dict[str, str]] = []
        async with self.http.stream("POST", url, json=body, headers=self.headers) as response:
            async for event in events(response):
                seen.append(event)
                if until in event.get("data", ""):
                    return seen
        raise AssertionError(f"No event has {until!r}: {seen}")

    async def resume(self, url: str, last: str) -> tuple[int, list[dict[str, str]]]:
        headers = {**self.headers, "last-event-id": last}
        async with self.http.stream("GET", url, headers=headers) as response:
            return response.status_code, [event async for event in events(response)]

    async def list_tools(self, url: str) -> int:
        body = message("tools/list", {}, 5)
        return (await self.http.post(url, json=body, headers=self.headers)).status_code


@asynccontextmanager
async def caller(token: str = ANN) -> AsyncIterator[Caller]:
    async with asyncio.timeout(60), httpx2.AsyncClient(trust_env=False, timeout=60) as http:
        yield Caller(http, {**HEADERS, "authorization": f"Bearer {token}"})


def kill(replica: Replica) -> None:
    replica.process.kill()
    replica.process.wait()


def wait_for_rows(database: str, number: int) -> None:
    """Wait until the events of so many messages are in the store."""

    def count() -> int:
        with closing(psycopg.connect(database, autocommit=True)) as sql:
            (found,) = sql.execute("SELECT count(*) FROM toolscout_events").fetchone() or (0,)
            return found

    wait_until(lambda: count() >= number)


def data(event: dict[str, str]) -> Any:
    return json.loads(event["data"])


async def test_a_call_of_a_killed_replica_ends_with_its_progress_and_an_error(fleet: Fleet) -> None:
    key = "3"  # a text stays one
    with fleet.replicas("a", "b") as (first, second):
        async with caller() as client:
            await client.open(first.url)
            # Through the other replica, as behind a load balancer.
            waiting = tool_call("talker__wait", key=key)
            seen = await client.begin(second.url, waiting, until="waiting")
            # The answer to the handshake, the request of the call, and its progress.
            wait_for_rows(fleet.database, 3)
            kill(first)
            status, rest = await client.resume(second.url, seen[0]["id"])
            assert status == 200
            progress, error = map(data, rest)
            assert progress == data(seen[-1])
            assert error["id"] == key
            assert MAY_HAVE_RUN in error["error"]["message"]
            status, rest = await client.resume(second.url, seen[-1]["id"])
            assert [data(event)["id"] for event in rest] == [key]
            assert await client.list_tools(second.url) == 404


async def test_the_answer_of_a_killed_replica_is_got_from_another(fleet: Fleet) -> None:
    with fleet.replicas("a", "b") as (first, second):
        async with caller() as client:
            await client.open(first.url)
            counting = tool_call("talker__count", key=3, to=3)
            seen = await client.begin(first.url, counting, until='"result"')
            wait_for_rows(fleet.database, len(seen))
            kill(first)
            status, rest = await client.resume(second.url, seen[0]["id"])
            assert (status, rest) == (200, seen[1:])
            # A client that has everything is not given anything: its session is gone.
            status, rest = await client.resume(second.url, seen[-1]["id"])
            assert status == 404


async def test_nobody_resumes_the_stream_of_another_principal_or_session(fleet: Fleet) -> None:
    with fleet.replicas("a", "b") as (first, second):
        async with caller() as client, caller(BOB) as other, caller() as again:
            for each in (client, other, again):
                await each.open(first.url)
            counting = tool_call("talker__count", key=3, to=3)
            closed = await again.begin(first.url, counting, until='"result"')
            seen = await client.begin(first.url, counting, until='"result"')
            wait_for_rows(fleet.database, 2 * len(seen))
            ended = await again.http.request("DELETE", second.url, headers=again.headers)
            assert ended.is_success
            # Its events are in the store, but its client has closed the session.
            assert (await again.resume(second.url, closed[0]["id"]))[0] == 404
            kill(first)
            own = client.headers["mcp-session-id"]
            for thief in (other, again):
                assert (await thief.resume(second.url, seen[0]["id"]))[0] == 404
            other.headers["mcp-session-id"] = own
            assert (await other.resume(second.url, seen[0]["id"]))[0] == 404
            del other.headers["authorization"]
            assert (await other.resume(second.url, seen[0]["id"]))[0] == 401
            for wrong in ("x", "x-1", f"x{seen[0]['id']}", "-"):
                assert (await client.resume(second.url, wrong))[0] == 404
            assert (await client.resume(second.url, seen[0]["id"]))[0] == 200


async def test_events_in_the_database_name_no_stream_and_cannot_be_read(fleet: Fleet) -> None:
    with fleet.replicas("a") as (first,):
        async with caller() as client:
            await client.open(first.url)
            counting = tool_call("talker__count", key=3, to=3)
            seen = await client.begin(first.url, counting, until='"result"')
            wait_for_rows(fleet.database, len(seen))
        with closing(psycopg.connect(fleet.database)) as sql:
            rows = sql.execute("SELECT stream, data FROM toolscout_events").fetchall()
        token = seen[0]["id"].partition("-")[0]
        with closing(PostgresEvents(fleet.database)) as store:
            shared = SharedEvents(store)
            session = client.headers["mcp-session-id"].partition("-")[0]
            read = shared.read(token, session=session, principal="ann")
            assert read
            assert shared.read(token, session=session, principal="bob") is None
            assert shared.read(token[::-1], session=session, principal="ann") is None
        stored = b"".join(bytes(each) for _, each in rows)
        assert not any(event.data in stored for event in read)
        assert not any(token in stream for stream, _ in rows)


async def test_the_official_client_gets_the_error_that_its_call_may_have_run(
    fleet: Fleet, tmp_path: Path
) -> None:
    with fleet.replicas("a", "b") as replicas:
        async with (
            asyncio.timeout(60),
            round_robin([r.url for r in replicas]) as url,
            httpx2.AsyncClient(headers={"authorization": f"Bearer {ANN}"}, timeout=60) as http,
        ):
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode="legacy") as client:
                running = asyncio.create_task(call(client, "work__effect", tag="once", seconds=600))
                effects = tmp_path / "effects"
                await asyncio.to_thread(wait_until, effects.exists)
                await asyncio.to_thread(wait_for_rows, fleet.database, 2)
                # The first request of all, which opened the session, went to the first replica.
                kill(replicas[0])
                with pytest.raises(MCPError, match=MAY_HAVE_RUN):
                    await running
                assert effects.read_text() == "once\n"


def kept(number: int, size: int = 1) -> KeptEvent:
    return KeptEvent("token", number, b"x" * size, is_answer=False)


async def test_events_wait_for_a_store_that_is_away_in_a_fixed_amount_of_memory(
    tmp_path: Path,
) -> None:
    # A file where the folder should be: the store cannot be opened until it is gone.
    blocked = tmp_path / "folder"
    blocked.write_text("")
    shared = SharedEvents(SqliteEvents(blocked / "events.db"))
    shared.start()
    current_origin.set(StreamOrigin("ann", "session"))
    for number in range(1, 20):
        shared.add(kept(number, 1_000_000))
    await asyncio.sleep(0.5)
    blocked.unlink()
    async with asyncio.timeout(20):
        # Nothing says when the store has been written.
        while 19 not in _numbers(shared):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    # The last ones that fit into 8 MB.
    assert _numbers(shared) == [*range(12, 20)]
    await shared.close()


def _numbers(shared: SharedEvents) -> list[int]:
    found = shared.read("token", session="session", principal="ann") or []
    return [event.number for event in found]


async def test_the_streams_of_killed_workers_are_resumed_at_others(tmp_path: Path) -> None:
    gateway = Supervised(tmp_path / "run", {"talker": talker()}, store="sqlite")
    gateway.start()
    try:
        first, second = gateway.workers
        # A worker that has started again has another name, but the first one has the same.
        for lost, other in ((second, first), (first, 0)):
            async with caller(TOKEN) as client:
                async with gateway.http_at(lost) as client.http:
                    await client.open("/mcp")
                    waiting = tool_call("talker__wait", key=3)
                    seen = await client.begin("/mcp", waiting, until="waiting")
                wait_for_events(gateway.state / "toolscout.events.db", seen)
                kill_worker(gateway, lost)
                there = other or max({*gateway.workers} - {lost})
                gateway.wait_for(there)
                async with gateway.http_at(there) as client.http:
                    status, rest = await client.resume("/mcp", seen[0]["id"])
                assert status == 200
                progress, error = map(data, rest)
                assert progress == data(seen[-1])
                assert MAY_HAVE_RUN in error["error"]["message"]
    finally:
        gateway.end()


def wait_for_events(path: Path, seen: list[dict[str, str]]) -> None:
    """Wait until these events of a stream are in the store."""
    stream = stream_name(seen[0]["id"].partition("-")[0])
    with closing(SqliteEvents(path)) as store:
        wait_until(lambda: len(store.read(stream)) == len(seen))


def kill_worker(gateway: Supervised, worker: int) -> None:
    """End a worker, and wait until another process has its place."""
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: len({*gateway.workers} - {worker}) == 2)
