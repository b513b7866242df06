"""A gateway that is killed in the middle of calls: its journal accounts for every effect."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mcp import Client

from toolscout.journal.reading import current_outcome, row_data
from toolscout.store.log_contract import LogFilter, LogRow
from toolscout.store.sqlite_log import SqliteLog

EFFECTS = Path(__file__).parents[1] / "upstreams" / "effects.py"
CALLS = 200


@contextmanager
def gateway(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A real `toolscout serve` over HTTP, and its address."""
    server = {"command": sys.executable, "args": [str(EFFECTS), str(folder / "effects")]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"effects": server}}))
    command = [sys.executable, "-m", "toolscout.cli", "serve"]
    with subprocess.Popen(
        [*command, "--config", "mcp.json", "--http", "127.0.0.1:0"],
        cwd=folder,
        env={
            **os.environ,
            "TOOLSCOUT_HOME": str(folder / "home"),
            "TOOLSCOUT_EMBEDDER": "none",
            "TOOLSCOUT_RECORD": "full",
        },
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        address = process.stderr.readline().split()[-1]
        try:
            yield process, address
        finally:
            process.kill()


async def call_until_killed(address: str, process: subprocess.Popen[str], after: int) -> int:
    """Make calls, eight at a time; kill the gateway when some have answered. Returns how many."""
    answered = 0
    numbers = iter(range(CALLS))

    async def work(client: Client) -> None:
        nonlocal answered
        for number in numbers:
            await client.call_tool(
                "call_tool", {"name": "effects__leave", "arguments": {"number": number}}
            )
            answered += 1
            if answered == after:
                process.send_signal(signal.SIGKILL)

    try:
        async with asyncio.timeout(60), Client(address, mode="legacy") as client:
            await asyncio.gather(*(work(client) for _ in range(8)))
    except BaseException:  # noqa: BLE001 - the connection breaks in many ways
        pass
    return answered


def call_rows(folder: Path) -> tuple[LogRow, ...]:
    log = SqliteLog(folder / "home" / "state" / "journal.db")
    rows = log.read(LogFilter(kind="call"), limit=10_000)
    log.close()
    return rows


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("after", [5, 60, 150])
async def test_every_effect_of_a_killed_gateway_is_in_the_journal(
    tmp_path: Path, after: int
) -> None:
    with gateway(tmp_path) as (process, address):
        answered = await call_until_killed(address, process, after)
        process.wait(timeout=30)
    assert after <= answered < CALLS
    done = Counter(int(line) for line in (tmp_path / "effects").read_text().split())
    rows = call_rows(tmp_path)
    recorded = {row_data(row)["arguments"]["number"]: row for row in rows}
    assert max(done.values()) == 1  # no call ran twice
    assert set(done) <= set(recorded)  # no effect without a row
    now = time.time()
    outcomes = Counter(current_outcome(row, now=now) for row in rows)
    assert set(outcomes) <= {"ok", "unknown"}
    assert outcomes["ok"] >= answered
    # The next start completes the audit file: a line for each of them.
    with gateway(tmp_path) as (_, address):
        async with Client(address, mode="legacy") as client:
            await client.list_tools()
    audit = (tmp_path / "home" / "state" / "audit.jsonl").read_text().splitlines()
    lines = Counter(json.loads(line)["outcome"] for line in audit)
    assert lines["ok"] + lines["unknown"] == len(rows)
    assert lines["unknown"] == outcomes["unknown"]
