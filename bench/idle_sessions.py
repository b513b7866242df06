"""Memory of idle sessions: `python -m bench.idle_sessions [SESSIONS]`.

Each session of the handshake versions lists the tools and searches once, and is then left alone.
The gateway is a separate process; its memory is read before and after.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx2

MAX_MB = 60.0
"""What 1,000 idle sessions may take."""

VERSION = "2025-06-18"
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
# Before the first measurement: what is loaded once, with the first sessions.
FIRST_SESSIONS = 50
PARALLEL = 10
SETTLE_SECONDS = 2.0


def memory_mb(process: int) -> float:
    """The resident memory of a process."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def request(method: str, params: dict[str, Any], key: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": key, "method": method, "params": params}


async def open_session(http: httpx2.AsyncClient, url: str) -> None:
    """Open a session, list the tools, search, and leave the session open."""
    info = {"name": "idle", "version": "1"}
    hello = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": info}
    opened = await http.post(url, json=request("initialize", hello, 1), headers=HEADERS)
    opened.raise_for_status()
    own = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": VERSION}
    headers = {**HEADERS, **own}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    search = {"name": "tool_search", "arguments": {"query": "say it back"}}
    for message in (
        ready,
        request("tools/list", {}, 2),
        request("tools/call", search, 3),
    ):
        (await http.post(url, json=message, headers=headers)).raise_for_status()


async def measure_sessions(url: str, process: int, *, sessions: int) -> float:
    """How many megabytes a gateway grows with so many idle sessions."""
    async with httpx2.AsyncClient(timeout=60) as http:
        for _ in range(FIRST_SESSIONS):
            await open_session(http, url)
        await asyncio.sleep(SETTLE_SECONDS)
        before = memory_mb(process)
        for _ in range(sessions // PARALLEL):
            await asyncio.gather(*(open_session(http, url) for _ in range(PARALLEL)))
        await asyncio.sleep(SETTLE_SECONDS)
        return memory_mb(process) - before


async def main(sessions: int) -> None:
    import tempfile

    from tests.attack.lab import Lab, bad

    with tempfile.TemporaryDirectory() as folder:
        servers = {f"s{number}": bad("several") for number in range(4)}
        async with Lab(Path(folder)).gateway(servers) as target:
            used = await measure_sessions(target.url, target.process.pid, sessions=sessions)
    facts = {
        "sessions": sessions,
        "mb": round(used, 1),
        "kb_each": round(used * 1024 / sessions, 1),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000))
