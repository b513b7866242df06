"""Sessions of gateways that share a store, when each request goes to the next one."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ToolListChangedNotification
from tests.fleet.replicas import Fleet, Replica, text
from tests.store.postgres_server import shared_server

UPSTREAMS = Path(__file__).parents[1] / "upstreams"
SESSION = {"toolscout/session": "one conversation"}
ROUNDS = 10
HEARD_SECONDS = 1.0


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    tools = [
        {"name": f"tool{n}", "description": f"Does thing{n}.", "inputSchema": {"type": "object"}}
        for n in range(60)
    ]
    (tmp_path / "tool.json").write_text(json.dumps(tools))
    server = {"command": sys.executable, "args": [str(UPSTREAMS / "bad.py"), "told", str(tmp_path)]}
    return Fleet(tmp_path, {"many": server}, gateway={"surface": "load"})


async def test_a_tool_loaded_at_one_replica_is_in_the_next_list_of_the_others(
    fleet: Fleet,
) -> None:
    with fleet.replicas("a", "b") as replicas:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(r.client()) for r in replicas]
            # Both have the session open before it changes.
            for client in clients:
                await client.list_tools(meta=SESSION)
            following = cycle(clients)
            for number in range(ROUNDS):
                query = {"query": f"select:many__tool{number}"}
                found = await next(following).call_tool("tool_search", query, meta=SESSION)
                assert f"many__tool{number}" in text(found)
                listed = (await next(following).list_tools(meta=SESSION)).tools
                assert f"many__tool{number}" in [tool.name for tool in listed]
                # The next round begins at the other replica.
                next(following)


async def test_a_client_that_listens_is_notified_of_a_change_at_another_replica(
    fleet: Fleet,
) -> None:
    with fleet.replicas("a", "b") as (first, second):
        async with (
            first.client("2026-07-28") as listening,
            second.client("2026-07-28") as changing,
            listening.listen(tools_list_changed=True) as events,
        ):
            for number in range(4):
                await changing.call_tool(
                    "tool_search", {"query": f"select:many__tool{number}"}, meta=SESSION
                )
                await asyncio.wait_for(anext(events), HEARD_SECONDS)
                listed = (await listening.list_tools(meta=SESSION, cache_mode="bypass")).tools
                assert f"many__tool{number}" in [tool.name for tool in listed]


async def test_a_handshake_client_is_notified_of_a_change_of_its_session_at_another_replica(
    fleet: Fleet,
) -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()
    with fleet.replicas("a", "b") as (first, second):
        async with (
            first.client("legacy", message_handler=heard.put) as listening,
            second.client("legacy") as changing,
        ):
            await listening.list_tools(meta=SESSION)
            for number in range(4):
                # The client lists its tools at this replica only.
                await changing.session.call_tool(
                    "tool_search", {"query": f"select:many__tool{number}"}, meta=SESSION
                )
                message = await asyncio.wait_for(heard.get(), HEARD_SECONDS)
                assert isinstance(message, ToolListChangedNotification)
                listed = (await listening.list_tools(meta=SESSION, cache_mode="bypass")).tools
                assert f"many__tool{number}" in [tool.name for tool in listed]


async def loaded(replica: Replica) -> set[str]:
    """The tools that a new client of the session sees."""
    async with replica.client("2026-07-28") as client:
        return {tool.name for tool in (await client.list_tools(meta=SESSION)).tools}


async def test_a_load_while_the_store_was_frozen_is_written_when_it_is_back(
    fleet: Fleet,
) -> None:
    def select(number: int) -> dict[str, Any]:
        return {"query": f"select:many__tool{number}"}

    with fleet.replicas("a", "b") as (first, second):
        async with first.client("2026-07-28") as client, asyncio.timeout(120):
            await client.list_tools(meta=SESSION)
            shared_server().freeze()
            try:
                found = await client.call_tool("tool_search", select(9), meta=SESSION)
            finally:
                shared_server().thaw()
            assert "many__tool9" in text(found)
            # Nothing else happens in this session at the first replica.
            while "many__tool9" not in await loaded(second):
                pass
            async with second.client("2026-07-28") as other:
                await other.call_tool("tool_search", select(3), meta=SESSION)
            assert {"many__tool3", "many__tool9"} <= await loaded(first)
        first.process.kill()
        assert {"many__tool3", "many__tool9"} <= await loaded(second)
