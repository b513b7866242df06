"""From a restart to the first answered search: `python bench/gateway_start.py [SERVERS] [HANGING]`.

All servers were listed in an earlier run. Then some of them hang when they are started again. The
time is taken inside the gateway's process, from its start to the answer, and, as the median of
some runs, over stdio from a client, with the start of the process and its imports. Beside it
stands how long a process takes that does no more than import FastMCP's server.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from toolscout.config import Config
from toolscout.gateway.gateway import Gateway
from toolscout.gateway.setup import Setup

RUNS = 3
ECHO = str(Path(__file__).parent.parent / "tests" / "upstreams" / "bad.py")


def entry(folder: Path, number: int) -> dict[str, Any]:
    return {"command": sys.executable, "args": [ECHO, "several", str(folder), str(number)]}


async def listed(path: Path, config: Config) -> None:
    """A first run that lists everything."""
    gateway = Gateway(Setup.read(path, overrides={"start_wait_seconds": 120}, config=config))
    await gateway.start()
    await gateway.started()
    await asyncio.to_thread(gateway.box._live.engine.fill)
    await gateway.close()


async def restarted(path: Path, config: Config) -> dict[str, float]:
    """A second run: how long until a search is answered, and until all others are up."""
    started = time.perf_counter()
    gateway = Gateway(Setup.read(path, config=config))
    await gateway.start()
    await gateway.started()
    results = gateway.box.search("does thing number 7")
    took = time.perf_counter() - started
    assert results.hits
    await gateway.close()
    return {"first_search_s": round(took, 3), "tools": len(gateway.box.catalog)}


async def over_stdio(path: Path, home: Path) -> float:
    toolscout = str(Path(sys.executable).with_name("toolscout"))
    command = StdioServerParameters(
        command=toolscout,
        args=["serve", "--stdio", "--config", str(path)],
        env={"TOOLSCOUT_HOME": str(home)},
    )
    started = time.perf_counter()
    async with Client(command, mode="legacy") as client:
        found = await client.call_tool("tool_search", {"query": "does thing number 7"})
        took = time.perf_counter() - started
        assert not found.is_error
    return took


def only_imported() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import fastmcp.server.server"], check=True)
    return time.perf_counter() - started


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
        took = [await over_stdio(path, root / "home") for _ in range(RUNS)]
        figures["first_search_with_process_start_s"] = round(statistics.median(took), 3)
        floor = [await asyncio.to_thread(only_imported) for _ in range(RUNS)]
        figures["importing_fastmcp_alone_s"] = round(statistics.median(floor), 3)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    given = [int(a) for a in sys.argv[1:]]
    asyncio.run(main(given[0] if given else 30, given[1] if len(given) > 1 else 5))
