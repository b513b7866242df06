"""From a restart to the first answered search: `python bench/gateway_start.py [SERVERS] [HANGING]`.

All servers were listed in an earlier run. Then some of them hang when they are started again. The
time is taken inside the gateway's process, from its start to the answer, and, as the median of
some runs, over stdio from a client, with the start of the process and its imports. Beside it
stands how long a bare FastMCP server of one tool takes to its first answer in the same way, which
no gateway on FastMCP goes below.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from toolscout.config import Config
from toolscout.gateway.gateway import Gateway
from toolscout.gateway.setup import Setup

RUNS = 5
BARE = """
from fastmcp import FastMCP
server = FastMCP("bare")
@server.tool
def tool_search(query: str) -> str:
    return query
server.run("stdio", show_banner=False)
"""
ECHO = str(Path(__file__).parent.parent / "tests" / "upstreams" / "bad.py")


def entry(folder: Path, number: int) -> dict[str, Any]:
    return {"command": sys.executable, "args": [ECHO, "several", str(folder), str(number)]}


async def listed(path: Path, config: Config) -> None:
    """A first run that lists everything."""
    gateway = Gateway(Setup.read(path, overrides={"start_wait_seconds": 120}, config=config))
    await gateway.start()
    await gateway.wait_until_ready()
    await asyncio.to_thread(gateway.box._live.engine.fill)
    await gateway.close()


async def restarted(path: Path, config: Config) -> dict[str, float]:
    """A second run: how long until a search is answered, and until all others are up."""
    started = time.perf_counter()
    gateway = Gateway(Setup.read(path, config=config))
    await gateway.start()
    await gateway.wait_until_ready()
    results = gateway.box.search("does thing number 7")
    took = time.perf_counter() - started
    assert results.hits
    await gateway.close()
    return {"first_search_s": round(took, 3), "tools": len(gateway.box.catalog)}


async def over_stdio(*command: str, home: Path) -> float:
    """From the start of a server's process to its first answer."""
    env = {"TOOLSCOUT_HOME": str(home)}
    server = StdioServerParameters(command=command[0], args=list(command[1:]), env=env)
    started = time.perf_counter()
    async with Client(server, mode="legacy") as client:
        found = await client.call_tool("tool_search", {"query": "does thing number 7"})
        took = time.perf_counter() - started
        assert not found.is_error
    return took


async def main(servers: int, hanging: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "well").mkdir()
        (root / "ill").mkdir()
        places = [root / ("ill" if n < hanging else "well") for n in range(servers)]
        path = root / "mcp.json"
        entries = {f"server{n}": entry(place, n) for n, place in enumerate(places)}
        path.write_text(json.dumps({"mcpServers": entries}))
        config = Config.read(home=str(root / "home"))
        await listed(path, config)
        (root / "ill" / "hang").touch()
        figures: dict[str, Any] = {"servers": servers, "hanging": hanging}
        figures |= await restarted(path, config)
        toolscout = str(Path(sys.executable).with_name("toolscout"))
        ours: list[float] = []
        bare: list[float] = []
        for _ in range(RUNS):  # in turn, so that a busy moment meets both
            serve = (toolscout, "serve", "--stdio", "--config", str(path))
            ours.append(await over_stdio(*serve, home=root / "home"))
            bare.append(await over_stdio(sys.executable, "-c", BARE, home=root / "home"))
        figures["first_search_with_process_start_s"] = round(statistics.median(ours), 3)
        figures["bare_fastmcp_server_with_process_start_s"] = round(statistics.median(bare), 3)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    given = [int(a) for a in sys.argv[1:]]
    asyncio.run(main(given[0] if given else 30, given[1] if len(given) > 1 else 5))
