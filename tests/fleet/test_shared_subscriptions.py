"""A client that is subscribed at one replica gets a notification of a change at another."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.fleet.replicas import Fleet, call, text
from tests.fleet.round_robin import round_robin
from tests.fleet.supervised import wait_until

SERVER = Path(__file__).parents[1] / "upstreams" / "bulletin.py"
URI = "board://news"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with subprocess.Popen([sys.executable, str(SERVER), str(tmp_path)]) as process:
        try:
            port = tmp_path / "port"
            wait_until(lambda: port.exists() and bool(port.read_text()))
            url = f"http://127.0.0.1:{port.read_text()}/mcp"
            board = {"url": url, "allow_private": True, "protocol": "handshake"}
            yield Fleet(tmp_path, {"board": board})
        finally:
            process.kill()


async def test_a_stream_of_one_replica_is_notified_of_a_change_at_another(fleet: Fleet) -> None:
    with fleet.replicas("a", "b") as (first, second):
        async with (
            asyncio.timeout(60),
            first.client("2026-07-28") as listening,
            second.client("2026-07-28") as changing,
            listening.listen(resource_subscriptions=[URI]) as events,
        ):
            assert events.honored.resource_subscriptions == [URI]
            for _ in range(3):
                assert text(await call(changing, "board__touch")) == "told 1"
                assert (await anext(events)).uri == URI  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_a_handshake_client_is_notified_through_any_replica(fleet: Fleet) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def note(message: Any) -> None:
        if uri := getattr(getattr(message, "params", None), "uri", ""):
            await heard.put(str(uri))

    with fleet.replicas("a", "b") as replicas:
        async with (
            asyncio.timeout(60),
            round_robin([r.url for r in replicas]) as url,
            Client(url, mode="legacy", message_handler=note) as listening,
        ):
            await listening.session.subscribe_resource(URI)
            for replica in replicas:
                async with replica.client("2026-07-28") as changing:
                    assert text(await call(changing, "board__touch")) == "told 1"
                assert await heard.get() == URI
            await listening.session.unsubscribe_resource(URI)
            async with replicas[1].client("2026-07-28") as changing:
                assert text(await call(changing, "board__touch")) == "told 0"
            assert heard.empty()
