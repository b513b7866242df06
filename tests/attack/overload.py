"""Overload: too many connections, requests, sessions and calls; clients that are too slow."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx2
from mcp import MCPError
from tests.attack.lab import (
    HEADERS,
    MODES,
    TOKENS,
    Lab,
    Target,
    bad,
    initialize,
    post_head,
    read_text,
    read_to_end,
)
from tests.attack.table import Outcome, attack

SOON_SECONDS = 1.0
MAX_LOG_BYTES = 50_000
MAX_JOURNAL_BYTES = 200_000


async def _count_closed(lab: Lab, readers: list[Any], expected: bytes) -> int:
    answers = await asyncio.gather(*map(read_to_end, readers))
    return sum(lab.note(expected in each, each) for each in answers)


@attack("Slowloris: connections that never send all their headers", is_quick=True)
async def send_headers_slowly(lab: Lab) -> Outcome:
    async with lab.gateway({"ok": bad("ok")}, limits={"header_seconds": 1}) as target:
        async with target.sockets(30) as silent, target.sockets(30, b"GET / HT") as slow:
            held = await _count_closed(lab, [*silent, *slow], b"408")
        return 61, held + lab.note(await target.call("ok__echo", text="x") == "x")


@attack("Bodies that never arrive as a whole")
async def send_bodies_slowly(lab: Lab) -> Outcome:
    async with (
        lab.gateway({"ok": bad("ok")}, limits={"request_seconds": 1}) as target,
        target.sockets(50, post_head(1_000) + b"{") as readers,
    ):
        return 50, await _count_closed(lab, readers, b"408")


@attack("Bodies above the limit, with and without an announced length")
async def send_large_bodies(lab: Lab) -> Outcome:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(300):
            yield b"x" * 65_536

    async with lab.gateway({"ok": bad("ok")}) as target, httpx2.AsyncClient(timeout=30) as http:
        before, held = target.memory_mb, 0
        for number in range(10):
            content = pieces() if number % 2 else b"x" * 5_000_000
            try:
                answer = await http.post(target.url, content=content, headers=HEADERS)
                held += lab.note(answer.status_code == 413, number)
            except httpx2.TransportError:  # closed while the rest was still being sent
                held += 1
        return 11, held + lab.note(target.memory_mb - before < 100)


@attack("More half-open sockets than the gateway may open files", is_quick=True)
async def exhaust_files(lab: Lab) -> Outcome:
    async with lab.gateway({"ok": bad("ok")}, max_files=256) as target:
        held = 0
        async with target.sockets(300):
            for _ in range(10):
                started = time.monotonic()
                held += lab.note(bool((await target.health())["live"]))
                held += lab.note(time.monotonic() - started < SOON_SECONDS)
            held += lab.note(await target.call("ok__echo", text="x") == "x")
        return 22, held + lab.note(target.log.stat().st_size < MAX_LOG_BYTES)


@attack("Every connection in use: health still answers", is_quick=True)
async def use_all_connections(lab: Lab) -> Outcome:
    async with lab.gateway({"ok": bad("ok")}, limits={"connections": 40}) as target:
        head = post_head(1_000, "Expect: 100-continue")
        async with target.sockets(40, head) as readers:
            for reader in readers:
                await reader.readuntil(b"100 Continue\r\n")
            held = 0
            async with httpx2.AsyncClient() as http:
                for _ in range(10):
                    held += lab.note((await http.get(f"{target.base}/health")).status_code == 200)
                    refused = await http.get(f"{target.base}/metrics")
                    held += lab.note(
                        refused.status_code == 503 and "retry-after" in refused.headers
                    )
        return 20, held


@attack("Too many connections from one address")
async def connect_from_one_address(lab: Lab) -> Outcome:
    limits = {"connections_per_address": 20}
    async with lab.gateway({"ok": bad("ok")}, limits=limits) as target:
        head = post_head(1_000, "Expect: 100-continue")
        async with target.sockets(20, head) as readers:
            for reader in readers:
                await reader.readuntil(b"100 Continue\r\n")
            line = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            async with target.sockets(20, line) as refused:
                return 20, await _count_closed(lab, refused, b" 429 ")


@attack("Sessions beyond the limits, in all and of one principal", is_quick=True)
async def open_sessions(lab: Lab) -> Outcome:
    limits = {"sessions": 30, "sessions_per_principal": 20}
    auth = {"tokens": TOKENS}
    async with lab.gateway({"ok": bad("ok")}, limits=limits, auth=auth) as target:
        statuses: list[int] = []
        async with httpx2.AsyncClient(headers=HEADERS, timeout=30) as http:
            for name, count in (("ann", 40), ("bob", 20)):
                login = {"authorization": f"Bearer {TOKENS[name]}"}
                asked = (
                    http.post(target.url, json=initialize(), headers=login) for _ in range(count)
                )
                answers = await asyncio.gather(*asked)
                statuses += [a.status_code for a in answers if "retry-after" in a.headers]
        # Ann gets 20 of 40, Bob the 10 that are left of 20.
        return 30, min(20, statuses.count(429)) + min(10, statuses.count(503))


async def _time_refusal(target: Target, client: Any) -> bool:
    started = time.monotonic()
    try:
        await client.call_tool("ok__echo", {"text": "x"})
    except MCPError as error:
        is_explained = bool(error.error.data) and error.error.data["retry_after_seconds"] >= 1
        return is_explained and time.monotonic() - started < SOON_SECONDS
    return False


async def _start_call(target: Target, client: Any, count: int) -> asyncio.Task[Any]:
    """Start a call that waits; it is the one that makes `count` of them.

    An earlier request of the client may still count for a moment after its answer, so a call that
    is refused meanwhile starts again.
    """
    call = client.call_tool
    await client.list_tools()
    task = asyncio.create_task(call("gated__echo", {"text": "x"}))
    async with asyncio.timeout(30):
        while (await target.health())["servers"]["gated"].get("in_flight", 0) < count:
            await asyncio.wait([task], timeout=0.05)
            if task.done():
                task = asyncio.create_task(call("gated__echo", {"text": "x"}))
    return task


@attack("Calls beyond the capacity: refused within a second", is_quick=True)
async def exceed_capacity(lab: Lab) -> Outcome:
    os.mkfifo(lab.folder / "gate")
    # The SDK lists tools after a call of one that it has not seen, which would need a place too.
    gated = bad("gated", str(lab.folder), pinned=["echo"])
    servers = {"gated": gated, "ok": bad("ok")}
    async with lab.gateway(servers, limits={"calls": 8}) as target, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(target.client(m)) for m in MODES * 8]
        waiting = [
            await _start_call(target, each, count) for count, each in enumerate(clients[:8], 1)
        ]
        done = await asyncio.gather(*(_time_refusal(target, each) for each in clients[8:]))
        left = set(waiting)
        while left:
            await asyncio.to_thread((lab.folder / "gate").write_text, "go")
            _, left = await asyncio.wait(left, return_when="FIRST_COMPLETED")
        served = sum(lab.note(read_text(each.result()) == "x", each) for each in waiting)
        held = sum(lab.note(each, number) for number, each in enumerate(done))
        return 16, held + served


@attack("A server with a full queue: refused within a second, others are served")
async def fill_queue(lab: Lab) -> Outcome:
    slow = bad("slow", concurrency=1, queue=2, call_timeout_seconds=5)
    async with lab.gateway({"slow": slow, "ok": bad("ok")}) as target, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(target.client()) for _ in range(13)]
        started = time.monotonic()

        async def call(client: Any) -> tuple[str, float]:
            try:
                said = read_text(await client.call_tool("slow__echo", {"text": "x"}))
            except MCPError as error:
                data = error.error.data or {}
                said = f"{data.get('status')} {data.get('retry_after_seconds')} {error}"
            return said, time.monotonic() - started

        done = [asyncio.create_task(call(each)) for each in clients]
        served = await target.call("ok__echo", text="x")
        answers = await asyncio.gather(*done)
        refused = [took for said, took in answers if said.startswith("503 1 ")]
        return 13, sum(lab.note(took < SOON_SECONDS + 1, took) for took in refused) + (
            lab.note(served == "x")
        )


@attack("More calls a minute than a principal has", is_quick=True)
async def exceed_rate(lab: Lab) -> Outcome:
    limits, auth = {"calls_per_minute": 60}, {"tokens": TOKENS}
    async with lab.gateway({"ok": bad("ok")}, limits=limits, auth=auth) as target:
        async with target.client(token=TOKENS["ann"]) as ann:
            calls = (ann.call_tool("ok__echo", {"text": "x"}) for _ in range(60))
            done = await asyncio.gather(*calls, return_exceptions=True)
        refused = [each for each in done if isinstance(each, MCPError)]
        is_exact = all(each.error.data["status"] == 429 for each in refused)
        async with target.client(token=TOKENS["bob"]) as bob:
            other = read_text(await bob.call_tool("ok__echo", {"text": "x"}))
        # Ten at once, and one a second while they run.
        return 2, lab.note(is_exact and len(refused) >= 30) + lab.note(other == "x")


@attack("A flood of broken requests: few lines in the log")
async def flood_log(lab: Lab) -> Outcome:
    async with lab.gateway({"ok": bad("ok")}) as target:
        held = 0
        for _ in range(200):
            async with target.connect(b"nonsense\r\n\r\n") as (reader, _):
                held += lab.note(b"400" in await read_to_end(reader))
        return 201, held + lab.note(target.log.stat().st_size < MAX_LOG_BYTES)


@attack("A flood of refused requests: few rows in the journal and the audit log")
async def flood_journal(lab: Lab, count: int = 2_000) -> Outcome:
    auth = {"tokens": TOKENS}
    async with lab.gateway({"ok": bad("ok")}, limits={"sessions": 1}, auth=auth) as target:
        login = {**HEADERS, "authorization": f"Bearer {TOKENS['ann']}"}
        body = json.dumps(initialize())

        async def ask(http: httpx2.AsyncClient) -> list[int]:
            asked = [await http.post(target.url, content=body) for _ in range(count // 8)]
            return [each.status_code for each in asked]

        async with httpx2.AsyncClient(headers=login, timeout=30) as http:
            await http.post(target.url, content=body)
            statuses = await asyncio.gather(*(ask(http) for _ in range(8)))
        held = sum(each.count(503) for each in statuses)
        paths = [*target.home.rglob("audit.jsonl"), *target.home.rglob("journal.db")]
        is_small = sum(each.stat().st_size for each in paths) < MAX_JOURNAL_BYTES
        is_small = is_small and target.log.stat().st_size < MAX_LOG_BYTES
        return count + 1, held + lab.note(is_small)


@attack("Idle sessions: they end, and make room")
async def leave_sessions(lab: Lab) -> Outcome:
    limits = {"sessions": 10, "session_idle_seconds": 1}
    async with (
        lab.gateway({"ok": bad("ok")}, limits=limits) as target,
        httpx2.AsyncClient(headers=HEADERS) as http,
    ):
        opened = [await http.post(target.url, json=initialize()) for _ in range(10)]
        held = 0
        for each in opened:
            session = {"mcp-session-id": each.headers.get("mcp-session-id", "")}
            async with asyncio.timeout(20):
                while (await http.post(target.url, json=initialize())).status_code != 200:  # noqa: ASYNC110 -- no event
                    await asyncio.sleep(0.1)
            gone = await http.post(target.url, json=initialize(), headers=session)
            held += lab.note(gone.status_code == 404, each)
        return 10, held


@attack("1,000 idle sessions in at most 60 MB")
async def keep_many_sessions(lab: Lab) -> Outcome:
    from bench.idle_sessions import MAX_MB, measure_sessions

    async with lab.gateway({f"s{n}": bad("several") for n in range(4)}) as target:
        used = await measure_sessions(target.url, target.process.pid, sessions=1_000)
        return 1, int(used <= MAX_MB)


@attack("200 sessions for 60 seconds: no error")
async def load(lab: Lab) -> Outcome:
    from bench.gateway_load import load as run_load

    async with lab.gateway({f"s{n}": bad("several") for n in range(4)}) as target:
        result: dict[str, Any] = await run_load(
            target.process.pid, target.address[1], 200, 60.0, waits_for_vectors=False
        )
        errors = sum(result["errors"].values())
        sys.stderr.write(f"{json.dumps(result)}\n")
        return result["requests"], result["requests"] - errors
