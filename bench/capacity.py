"""What a replica needs: `python -m bench.capacity`, with `--write` into docs/deployment.md.

One gateway with a PostgreSQL store and one MCP server in processes of their own. Memory is that of
the gateway when its index is complete. CPU is the time that the gateway's process spent, and so
hardly depends on what else the machine does.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from mcp import Client
from tests.store.postgres_server import shared_server

from bench.gateway_load import ECHO, memory_mb

PAGE = Path(__file__).parents[1] / "docs" / "deployment.md"
START, END = "<!-- capacity -->\n", "<!-- /capacity -->\n"
CATALOGS = (100, 1_000, 10_000)
REQUESTS = 300
WARM_UP = 30
READY_SECONDS = 600
WORDS = [
    "invoice",
    "report",
    "customer",
    "ticket",
    "branch",
    "calendar",
    "message",
    "file",
    "order",
    "payment",
]
TICKS = os.sysconf("SC_CLK_TCK")


def write_tools(path: Path, count: int) -> None:
    properties = {
        name: {"type": "string", "description": f"The {name} to use."} for name in ("name", "text")
    }
    tools = [
        {
            "name": f"tool{number}",
            "description": f"Change {WORDS[number % 10]} {number} of a {WORDS[number // 10 % 10]}.",
            "inputSchema": {"type": "object", "properties": properties},
        }
        for number in range(count)
    ]
    path.write_text(json.dumps(tools))


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def gateway(folder: Path) -> Iterator[tuple[str, int]]:
    config = folder / "mcp.json"
    server = {"command": sys.executable, "args": [ECHO, "told", str(folder)]}
    config.write_text(json.dumps({"mcpServers": {"many": server}}))
    own = {"TOOLSCOUT_HOME": str(folder), "TOOLSCOUT_STORE": shared_server().new_database()}
    with subprocess.Popen(
        [sys.executable, "-m", "toolscout.cli", "serve", "--config", str(config), "--http",
         "127.0.0.1:0"],
        env={**os.environ, **own}, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if "/mcp" in line)
            yield line.split()[-1], process.pid
        finally:
            process.kill()


async def wait_for_index(url: str, tools: int) -> None:
    """Until every tool has its vector."""
    deadline = time.monotonic() + READY_SECONDS
    async with httpx2.AsyncClient(trust_env=False) as http:
        while True:
            report = (await http.get(url.replace("/mcp", "/health"))).json()
            index = report.get("parts", {}).get("index", {})
            if set(index.get("vectors", {}).values()) == {index.get("tools")} == {tools}:
                return
            assert time.monotonic() < deadline, index
            await asyncio.sleep(0.2)


async def spend(client: Client, process: int, name: str, arguments: dict[str, object]) -> float:
    """Milliseconds of CPU for one request."""
    for _ in range(WARM_UP):
        await client.call_tool(name, arguments)
    before = cpu_seconds(process)
    for _ in range(REQUESTS):
        await client.call_tool(name, arguments)
    return 1_000 * (cpu_seconds(process) - before) / REQUESTS


async def measure(tools: int) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        write_tools(folder / "tool.json", tools)
        with gateway(folder) as (url, process):
            await wait_for_index(url, tools)
            start = cpu_seconds(process)
            async with Client(url, mode="2026-07-28", cache=None) as client:
                query: dict[str, object] = {"query": "change the invoice of a customer"}
                search = await spend(client, process, "tool_search", query)
                called: dict[str, object] = {"name": "many__tool7", "arguments": {}}
                call = await spend(client, process, "call_tool", called)
            memory = memory_mb(process)
    per_second = 10 * round(100 / call)
    return (f"{tools:,}", f"{memory:.0f} MB", f"{start:.0f} s", f"{search:.1f} ms",
            f"{call:.1f} ms", str(per_second))  # fmt: skip


def table(rows: list[tuple[str, ...]]) -> str:
    head = ("tools", "memory", "CPU of the first start", "CPU of a search", "CPU of a call",
            "calls a second on one core")  # fmt: skip
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    text = table([asyncio.run(measure(tools)) for tools in CATALOGS])
    sys.stdout.write(text)
    if "--write" in sys.argv:
        page = PAGE.read_text(encoding="utf-8")
        pattern = re.escape(START) + ".*" + re.escape(END)
        new = re.sub(pattern, lambda _: START + text + END, page, flags=re.DOTALL)
        PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
