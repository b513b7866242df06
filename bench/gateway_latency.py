"""What a call costs on its way through the gateway: `python bench/gateway_latency.py [CALLS]`.

One upstream process over stdio, called three ways in turn from one client process: directly,
through a bare FastMCP forwarder, and through the gateway's call_tool. The last two are reached
over stdio as well, so that each adds exactly one hop.
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

ECHO = str(Path(__file__).parent.parent / "tests" / "upstreams" / "bad.py")
FORWARDER = """
import sys
from fastmcp.server import create_proxy
config = {"mcpServers": {"echo": {"command": sys.executable, "args": sys.argv[1:]}}}
create_proxy(config).run("stdio", show_banner=False)
"""


def command(*args: str, home: str = "") -> StdioServerParameters:
    env = {"TOOLSCOUT_HOME": home} if home else None
    return StdioServerParameters(command=args[0], args=list(args[1:]), env=env)


async def timed(client: Client, name: str, arguments: dict[str, Any], calls: int) -> list[float]:
    for _ in range(20):
        await client.call_tool(name, arguments)
    took: list[float] = []
    for _ in range(calls):
        started = time.perf_counter()
        result = await client.call_tool(name, arguments)
        took.append((time.perf_counter() - started) * 1_000)
        assert not result.is_error, result
    return took


async def main(calls: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        forwarder = Path(folder) / "forwarder.py"
        forwarder.write_text(FORWARDER)
        config = Path(folder) / "mcp.json"
        echo = {"command": sys.executable, "args": [ECHO, "ok"]}
        config.write_text(json.dumps({"mcpServers": {"echo": echo}}))
        toolscout = str(Path(sys.executable).with_name("toolscout"))
        say = {"text": "hello"}
        ways = {
            "direct": (command(sys.executable, ECHO, "ok"), "echo", say),
            "forwarder": (command(sys.executable, str(forwarder), ECHO, "ok"), "echo", say),
            "gateway": (
                command(
                    *(toolscout, "serve", "--stdio", "--wait", "60", "--config", str(config)),
                    home=folder,
                ),
                "call_tool",
                {"name": "echo__echo", "arguments": say},
            ),
        }
        took: dict[str, list[float]] = {way: [] for way in ways}
        for mode in ("legacy",):
            for way, (parameters, name, arguments) in ways.items():
                async with Client(parameters, mode=mode) as client:
                    took[way] += await timed(client, name, arguments, calls)
    report(took, calls)


def report(took: dict[str, list[float]], calls: int) -> None:
    base = statistics.median(took["direct"])
    rows = {}
    for way, values in took.items():
        p50, p95 = statistics.median(values), statistics.quantiles(values, n=20)[-1]
        rows[way] = {
            "p50_ms": round(p50, 2),
            "p95_ms": round(p95, 2),
            "added_p50_ms": round(p50 - base, 2),
        }
    print(json.dumps({"calls": calls, **rows}, indent=2))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300))
