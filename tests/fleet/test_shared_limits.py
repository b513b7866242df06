"""Limits per minute that several gateways enforce together."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, closing, suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.fleet.replicas import Fleet, call

from toolscout.errors import StoreError
from toolscout.store.rate_limits import MemoryBuckets
from toolscout.store.shared_buckets import SharedBuckets

TALKER = str(Path(__file__).parents[1] / "upstreams" / "talker.py")
TOKEN = "t0ken-of-alice-0123456789"
# Ten at once, and then one a second. Apart, two gateways would let twenty through.
LIMIT = {"calls_per_minute": 60}
CALLS = 24
MAX_ANSWERED = 15
SECTIONS: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "principal": ({}, {"limits": LIMIT, "auth": {"tokens": {"alice": TOKEN}}}),
    "server": (LIMIT, {}),
}


@pytest.mark.parametrize("kind", SECTIONS)
async def test_two_gateways_enforce_one_limit(tmp_path: Path, kind: str) -> None:
    server, sections = SECTIONS[kind]
    talker = {"command": sys.executable, "args": [TALKER], **server}
    fleet = Fleet(tmp_path, {"talker": talker}, **sections)
    answered = 0
    with fleet.replicas("a", "b") as replicas:
        async with AsyncExitStack() as stack:
            headers = {"authorization": f"Bearer {TOKEN}"}
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers))
            clients = [
                await stack.enter_async_context(
                    Client(streamable_http_client(r.url, http_client=http), mode="2026-07-28")
                )
                for r in replicas
            ]
            for client in islice(cycle(clients), CALLS):
                with suppress(MCPError):  # the refusal of a principal
                    answered += not (await call(client, "talker__add", a=1, b=2)).is_error
    assert 0 < answered <= MAX_ANSWERED


class _Silent(MemoryBuckets):
    """A store that does not answer at first."""

    tries = 0

    def take(self, key: str, *, per_second: float, capacity: float, now: float) -> float:
        self.tries += 1
        if self.tries == 1:
            raise StoreError("It does not answer.")
        return super().take(key, per_second=per_second, capacity=capacity, now=now)


def test_without_the_store_each_gateway_counts_for_itself_and_asks_again_later() -> None:
    now, store = [0.0], _Silent()

    def clock() -> float:
        return now[0]

    with closing(SharedBuckets(store, clock=clock, retry_clock=clock)) as buckets:

        def take() -> float:
            return buckets.take("alice", per_second=0.001, capacity=1.0, now=-1.0)

        assert take() == 0
        assert take() > 0
        assert store.tries == 1
        now[0] = 10.0
        assert take() == 0
        assert store.tries == 2
