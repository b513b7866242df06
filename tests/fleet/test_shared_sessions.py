"""Sessions of gateways that share a store, when each request goes to the next one."""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack
from itertools import cycle
from pathlib import Path

import pytest
from tests.fleet.replicas import Fleet, text

UPSTREAMS = Path(__file__).parents[1] / "upstreams"
SESSION = {"toolscout/session": "one conversation"}
ROUNDS = 10


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
