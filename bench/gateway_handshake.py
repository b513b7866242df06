"""From the start of a process to its answer to `initialize`: `python bench/gateway_handshake.py`.

The gateway over stdio, with 1 and with 20 servers that never answer, in a new home and in one that
was used before, beside `mcp-server-time`: a server of two tools on the MCP SDK. Time passes and CPU
time is used by the process up to the moment at which the client reads the answer. All are
started in turn, so that a busy moment meets all of them; the ratios are of the medians.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RUNS = 7
BIN = Path(sys.executable).parent
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
HANGING = {"command": sys.executable, "args": ["-c", "import time; time.sleep(600)"]}


def started(command: list[str], home: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one start, up to the answer."""
    env = {**os.environ, "TOOLSCOUT_HOME": str(home)}
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(HELLO).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        wall, cpu = time.perf_counter() - began, cpu_seconds(process.pid)
        assert answer["result"]["serverInfo"]
        process.stdin.close()
        process.stdout.read()
    return wall, cpu


def cpu_seconds(pid: int) -> float:
    """CPU time that a running process has used (Linux)."""
    # Nanoseconds on a core, the first number, of each thread; `stat` counts in ticks of 10 ms.
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def contestants(root: Path) -> dict[str, tuple[list[str], Path]]:
    """The commands, each with its home."""
    found = {"mcp_server_time": ([str(BIN / "mcp-server-time")], root)}
    for servers in (1, 20):
        path = root / f"{servers}.json"
        entries = {f"server{n}": HANGING for n in range(servers)}
        path.write_text(json.dumps({"mcpServers": entries}))
        serve = [str(BIN / "toolscout"), "serve", "--stdio", "--wait", "0", "--config", str(path)]
        found[f"{servers}_servers_new_home"] = (serve, root / "new")
        found[f"{servers}_servers"] = (serve, root / "used")
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        commands = contestants(Path(name))
        times: dict[str, list[tuple[float, float]]] = {each: [] for each in commands}
        for run in range(RUNS + 1):
            for each, (command, home) in commands.items():
                # A folder of its own for each run is a home that nothing was written to yet.
                place = home / f"{each}{run}" if home.name == "new" else home
                taken = started(command, place)
                if run:  # the first run fills caches of files
                    times[each].append(taken)
    figures: dict[str, Any] = {"runs": RUNS}
    base = [statistics.median(column) for column in zip(*times["mcp_server_time"], strict=True)]
    for each, taken in times.items():
        wall, cpu = (statistics.median(column) for column in zip(*taken, strict=True))
        figures[each] = {"wall_s": round(wall, 3), "cpu_s": round(cpu, 3)}
        if each != "mcp_server_time":
            ratios = {"wall_ratio": round(wall / base[0], 2), "cpu_ratio": round(cpu / base[1], 2)}
            figures[each] |= ratios
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
