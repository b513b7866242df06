"""Fuzzing: random and nearly right requests in both generations of the protocol."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import httpx2
from tests.attack.lab import HEADERS, VERSION, Lab, Target, bad, initialize, read_to_end, rpc
from tests.attack.table import Outcome, attack

COUNT = 200
METHODS = (
    "tools/list",
    "tools/call",
    "prompts/get",
    "prompts/list",
    "resources/read",
    "resources/subscribe",
    "completion/complete",
    "logging/setLevel",
    "server/discover",
    "initialize",
    "ping",
    "subscriptions/listen",
    "no/such/method",
    "",
)
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**70,
    1e400,
    "",
    "x" * 10_000,
    "\x00",
    "\ud800",
    "../../etc/passwd",
    [],
    {},
    [[[[]]]],
    {"a": {"b": {"c": None}}},
    "${HOME}",
    "'; DROP TABLE sessions; --",
)
KEYS = (
    "name",
    "arguments",
    "uri",
    "ref",
    "argument",
    "level",
    "cursor",
    "_meta",
    "protocolVersion",
)


def random_request(dice: random.Random) -> Any:
    """A request of which some parts are wrong."""
    params = {dice.choice(KEYS): dice.choice(ODD) for _ in range(dice.randint(0, 4))}
    if dice.random() < 0.5:
        params |= {"name": dice.choice(("tool_search", "call_tool", "ok__echo", "describe_tools"))}
    message: dict[str, Any] = rpc(dice.choice(METHODS), params, dice.randint(0, 9))
    for key in ("id", "jsonrpc", "method", "params"):
        if dice.random() < 0.1:
            message[key] = dice.choice(ODD)
    return [message] if dice.random() < 0.03 else message


async def _send(target: Target, content: bytes, headers: dict[str, str]) -> bool:
    """Whether the gateway answered without a failure of its own."""
    try:
        async with (
            httpx2.AsyncClient(timeout=httpx2.Timeout(5)) as http,
            http.stream("POST", target.url, content=content, headers=headers) as answer,
        ):
            return answer.status_code < 500 or "retry-after" in answer.headers
    except httpx2.ReadTimeout:  # a stream that the client asked for, and that has nothing to say
        return b"listen" in content
    except httpx2.HTTPError:
        return False


async def _fuzz(lab: Lab, target: Target, seed: int, headers: dict[str, str]) -> int:
    dice = random.Random(seed)
    bodies = [json.dumps(random_request(dice)).encode() for _ in range(COUNT)]
    held = 0
    for start in range(0, COUNT, 10):
        batch = bodies[start : start + 10]
        answers = await asyncio.gather(*(_send(target, body, headers) for body in batch))
        held += sum(lab.note(is_held, body) for is_held, body in zip(answers, batch, strict=True))
    return held


@attack("Random requests in a session of the handshake versions", is_quick=True)
async def fuzz_handshake(lab: Lab) -> Outcome:
    async with lab.gateway({"ok": bad("ok")}) as target, httpx2.AsyncClient() as http:
        opened = await http.post(target.url, json=initialize(), headers=HEADERS)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        held = await _fuzz(lab, target, 1, {**HEADERS, **session, "mcp-protocol-version": VERSION})
        return COUNT + 1, held + lab.note(await target.call("ok__echo", text="x") == "x")


@attack("Random requests of stateless clients", is_quick=True)
async def fuzz_stateless(lab: Lab) -> Outcome:
    async with lab.gateway({"ok": bad("ok")}) as target:
        headers = {**HEADERS, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call"}
        held = await _fuzz(lab, target, 2, headers)
        return COUNT + 1, held + lab.note(await target.call("ok__echo", text="x") == "x")


@attack("Bodies that are not JSON, or too deep, or cut off")
async def fuzz_bodies(lab: Lab) -> Outcome:
    dice = random.Random(3)
    good = json.dumps(initialize()).encode()
    bodies = [dice.randbytes(dice.randint(0, 300)) for _ in range(60)]
    bodies += [good[: dice.randint(1, len(good) - 1)] for _ in range(60)]
    bodies += [b"[" * 100_000, b'{"a":' * 50_000, b'"' + b"\\" * 9_999, good * 2, b"\xff" * 999]
    async with lab.gateway({"ok": bad("ok")}) as target:
        versions = ({}, {"mcp-protocol-version": "2026-07-28"})
        held = 0
        for number, body in enumerate(bodies):
            held += lab.note(
                await _send(target, body, {**HEADERS, **versions[number % 2]}), number, body
            )
        return len(bodies) + 1, held + lab.note(await target.is_alive())


@attack("Headers that are random, doubled or contradict the body")
async def fuzz_headers(lab: Lab) -> Outcome:
    dice = random.Random(4)
    names = ("mcp-session-id", "mcp-protocol-version", "mcp-method", "last-event-id", "accept")
    texts = ("", "x", "2026-07-28", "2025-06-18", "9999-99-99", "a" * 5_000, "tools/list", "-1")
    async with lab.gateway({"ok": bad("ok")}) as target:
        held = 0
        body = json.dumps(rpc("tools/list")).encode()
        for _ in range(100):
            chosen = {dice.choice(names): dice.choice(texts) for _ in range(3)}
            held += lab.note(await _send(target, body, {**HEADERS, **chosen}), chosen)
        return 101, held + lab.note(await target.is_alive())


@attack("Bytes that are not HTTP")
async def fuzz_bytes(lab: Lab) -> Outcome:
    dice = random.Random(5)
    async with lab.gateway({"ok": bad("ok")}, limits={"header_seconds": 1}) as target:
        held = 0
        for _ in range(5):
            junk = [dice.randbytes(dice.randint(1, 3_000)) for _ in range(10)]
            opened = [target.connect(each) for each in junk]
            readers = [await each.__aenter__() for each in opened]
            answers = await asyncio.gather(*(read_to_end(reader) for reader, _ in readers))
            # Each was closed in time.
            pairs = zip(answers, junk, strict=True)
            held += sum(lab.note(bool(answer), sent) for answer, sent in pairs)
            for each in opened:
                await each.__aexit__(None, None, None)
        return 51, held + lab.note(await target.is_alive())
