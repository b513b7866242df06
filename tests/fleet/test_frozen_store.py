"""A gateway whose database is frozen: the first request waits for it, and the others do not."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from mcp import Client
from tests.fleet.replicas import Fleet, call
from tests.store.postgres_server import shared_server

TALKER = str(Path(__file__).parents[1] / "upstreams" / "talker.py")
MAX_SECONDS = 3.0
# Far less than the time for which a use of the store waits.
AT_ONCE_SECONDS = 1.5
FROZEN_SECONDS = 8.0


async def seconds_of_a_call(client: Client) -> float:
    started = time.monotonic()
    result = await call(client, "talker__add", a=1, b=2)
    assert result.structured_content == {"sum": 3}
    return time.monotonic() - started


async def test_calls_continue_while_the_store_is_frozen_and_only_the_first_waits(
    tmp_path: Path,
) -> None:
    fleet = Fleet(tmp_path, {"talker": {"command": sys.executable, "args": [TALKER]}})
    server = shared_server()
    with fleet.replicas("a") as (replica,):
        async with replica.client("legacy") as session, replica.client("2026-07-28") as anonymous:
            for client in (session, anonymous):
                await seconds_of_a_call(client)
            server.freeze()
            try:
                # At once, as they may wait for different things.
                first = await asyncio.gather(*map(seconds_of_a_call, (session, anonymous)))
                later: list[float] = []
                until = time.monotonic() + FROZEN_SECONDS
                while time.monotonic() < until:
                    later += [await seconds_of_a_call(client) for client in (session, anonymous)]
                    await asyncio.sleep(0.3)
            finally:
                server.thaw()
    assert max(first) < MAX_SECONDS
    assert max(later) < AT_ONCE_SECONDS
