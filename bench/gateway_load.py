"""Many clients at once: `python bench/gateway_load.py [CLIENTS] [SECONDS]`.

Each client opens its own session over HTTP and searches and calls in turn. The gateway and its
upstreams are separate processes; its memory is read while the clients work.

Memory is told in steps. `ready` is the gateway alone, its index complete and its encoder read.
`connected` is at the end of the warm-up, the first quarter of the run, when every client is there
and has a request under way: that step is what the clients cost. `growth_percent` is how far the
highest sample of the rest lies above it. `gone` is after they have left. All samples are printed.
"""

from __future__ import annotations

import asyncio
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx2
from mcp import Client

ECHO = str(Path(__file__).parent.parent / "tests" / "upstreams" / "bad.py")
SAMPLES = 24
WARM_UP = 0.25
SETTLE_SECONDS = 2.0
QUERIES = ("say it back", "does thing number 7", "thing 31", "echo some text")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def memory_mb(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


async def work(
    url: str, number: int, until: float, took: dict[str, list[float]], errors: Counter[str]
) -> None:
    mode = "legacy" if number % 2 else "2026-07-28"
    try:
        async with Client(url, mode=mode, cache=None) as client:
            step = number
            while time.monotonic() < until:
                step += 1
                query = {"query": QUERIES[step % len(QUERIES)]}
                call = {"name": f"s{step % 4}__tool_{step % 40}", "arguments": {"text": "x"}}
                for kind, name, arguments in (
                    ("search", "tool_search", query),
                    ("call", "call_tool", call),
                ):
                    started = time.perf_counter()
                    result = await client.call_tool(name, arguments)
                    took[kind].append((time.perf_counter() - started) * 1_000)
                    if result.is_error:
                        errors[str(result.content)[:120]] += 1
    except Exception as error:  # noqa: BLE001 -- every failure counts
        errors[repr(error)[:200]] += 1


async def main(clients: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "mcp.json"
        server = {"command": sys.executable, "args": [ECHO, "several"]}
        config.write_text(json.dumps({"mcpServers": {f"s{i}": server for i in range(4)}}))
        port = free_port()
        toolscout = str(Path(sys.executable).with_name("toolscout"))
        process = subprocess.Popen(  # noqa: ASYNC220 -- once, at the start
            [toolscout, "serve", "--config", str(config), "--http", str(port), "--wait", "60"],
            env={"TOOLSCOUT_HOME": folder, "PATH": "/usr/bin:/bin", "HOME": folder},
        )
        try:
            print(json.dumps(await load(process.pid, port, clients, seconds), indent=2))
        finally:
            process.terminate()
            process.wait()


async def load(
    process: int, port: int, clients: int, seconds: float, *, waits_for_vectors: bool = True
) -> dict[str, object]:
    base = f"http://127.0.0.1:{port}"
    url = f"{base}/mcp"
    while waits_for_vectors and not await is_warm(base):  # noqa: ASYNC110 -- another process has no event to wait for
        await asyncio.sleep(0.2)
    await asyncio.sleep(SETTLE_SECONDS)
    ready = memory_mb(process)
    took: dict[str, list[float]] = {"search": [], "call": []}
    errors: Counter[str] = Counter()
    until = time.monotonic() + seconds
    memory: list[float] = []

    async def watch() -> None:
        while time.monotonic() < until:
            memory.append(round(memory_mb(process), 1))
            await asyncio.sleep(seconds / SAMPLES)

    await asyncio.gather(watch(), *(work(url, n, until, took, errors) for n in range(clients)))
    await asyncio.sleep(SETTLE_SECONDS)
    gone = round(memory_mb(process), 1)
    done = sum(len(v) for v in took.values())
    return {
        "clients": clients,
        "seconds": seconds,
        "requests": done,
        "per_second": round(done / seconds, 1),
        "errors": dict(errors),
        **{f"{kind}_p50_ms": round(statistics.median(values), 1) for kind, values in took.items()},
        **{
            f"{kind}_p95_ms": round(statistics.quantiles(values, n=20)[-1], 1)
            for kind, values in took.items()
        },
        "memory": {"ready_mb": round(ready, 1), **growth(memory), "gone_mb": gone},
        "memory_mb": memory,
    }


def growth(samples: list[float]) -> dict[str, float]:
    """What the clients cost, and how far memory rises once they are all at work."""
    after = samples[round(len(samples) * WARM_UP) :]
    grown = (max(after) / after[0] - 1) * 100
    return {"connected_mb": after[0], "highest_mb": max(after), "growth_percent": round(grown, 2)}


async def is_warm(base: str) -> bool:
    """Whether every tool has its vector, and a search goes by meaning too."""
    try:
        async with httpx2.AsyncClient() as http:
            index = (await http.get(f"{base}/health")).json()["parts"]["index"]
        async with Client(f"{base}/mcp") as client:
            found = await client.call_tool("tool_search", {"query": "ready?"})
    except Exception:  # noqa: BLE001 -- not up yet
        return False
    is_full = index["tools"] > 0 and all(n == index["tools"] for n in index["vectors"].values())
    return is_full and "without vectors" not in str(found.content)


if __name__ == "__main__":
    given = [float(a) for a in sys.argv[1:]]
    asyncio.run(main(int(given[0]) if given else 200, given[1] if len(given) > 1 else 60.0))
