"""Two replicas behind a round robin: what works, as a table: `python -m tests.fleet`."""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp import Client
from mcp_types import ElicitResult
from tests.fleet.replicas import Fleet, call, text
from tests.fleet.round_robin import round_robin

TALKER = str(Path(__file__).parents[1] / "upstreams" / "talker.py")
MODERN, HANDSHAKE = "2026-07-28", "legacy"
SESSION = {"toolscout/session": "one conversation"}
Attempt = Callable[[Client, int], Awaitable[bool]]


async def add(client: Client, number: int) -> bool:
    result = await call(client, "older__add", a=number, b=1)
    return result.structured_content == {"sum": number + 1}


async def answer_parked(client: Client, _: int) -> bool:
    return text(await call(client, "older__greet")) == "Hello Ada"


async def answer_stateless(client: Client, _: int) -> bool:
    return text(await call(client, "newer__greet")) == "Hello Ada"


async def load(client: Client, number: int) -> bool:
    name = ("older__add", "newer__count", "older__show", "newer__muse")[number]
    before = [tool.name for tool in (await client.list_tools(meta=SESSION)).tools]
    if name in before:
        return False
    await client.call_tool("tool_search", {"query": f"select:{name}"}, meta=SESSION)
    return name in [tool.name for tool in (await client.list_tools(meta=SESSION)).tools]


ROWS: list[tuple[str, str, Attempt, int]] = [
    ("stateless calls", MODERN, add, 20),
    ("calls of a handshake session", HANDSHAKE, add, 60),
    ("question of a call that waits, stateless client", MODERN, answer_parked, 6),
    ("question of a stateless server, stateless client", MODERN, answer_stateless, 6),
    ("question in a handshake session", HANDSHAKE, answer_parked, 6),
    ("loaded tools are in the next list", MODERN, load, 4),
]


async def name_yourself(_: Any, __: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


async def count(url: str, mode: str, attempt: Attempt, tries: int) -> int:
    good = 0
    try:
        async with Client(url, mode=mode, elicitation_callback=name_yourself) as client:
            for number in range(tries):
                async with asyncio.timeout(20):
                    good += await attempt(client, number)
    except Exception as error:  # noqa: BLE001 - a row that fails must not hide the others
        sys.stderr.write(f"{mode}: {error!r}\n")
    return good


async def main() -> int:
    server = {"command": sys.executable, "args": [TALKER]}
    servers = {"older": {**server, "protocol": "handshake"}, "newer": server}
    logging.disable(logging.ERROR)  # the table is enough
    is_held = True
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), servers, gateway={"surface": "load"})
        with fleet.replicas("a", "b") as replicas:
            async with round_robin([r.url for r in replicas]) as url:
                sys.stdout.write("| tried | answered | seconds |\n|---|---|---|\n")
                for name, mode, attempt, tries in ROWS:
                    started = time.monotonic()
                    good = await count(url, mode, attempt, tries)
                    seconds = time.monotonic() - started
                    sys.stdout.write(f"| {name} | {good}/{tries} | {seconds:.1f} |\n")
                    is_held &= good == tries
    return 0 if is_held else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
