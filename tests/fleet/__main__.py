"""Three replicas behind a round robin: what works, as a table: `python -m tests.fleet`.

With words as arguments, only the rows whose names contain one of them.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fleet.failures import FAILURES
from tests.fleet.latencies import measure
from tests.fleet.replicas import Fleet
from tests.fleet.round_robin import round_robin
from tests.fleet.rows import MODERN, MODES, ROWS, Result, Row, Table

UPSTREAMS = Path(__file__).parents[1] / "upstreams"
ROW_SECONDS = 60


@contextmanager
def upstreams(folder: Path) -> Iterator[dict[str, Any]]:
    """Servers of every kind: two generations, stdio and HTTP."""
    server = str(UPSTREAMS / "fleet_server.py")
    talker = {"command": sys.executable, "args": [str(UPSTREAMS / "talker.py")]}
    with subprocess.Popen([sys.executable, server, str(folder), "http"]) as process:
        try:
            port = folder / "port"
            while not (port.exists() and port.read_text()):
                time.sleep(0.05)
            url = f"http://127.0.0.1:{port.read_text()}/mcp"
            yield {
                "older": {**talker, "protocol": "handshake"},
                "newer": talker,
                "work": {"command": sys.executable, "args": [server, str(folder)]},
                "remote": {"url": url, "allow_private": True},
            }
        finally:
            process.kill()


async def try_row(table: Table, row: Row, mode: str) -> Result:
    try:
        async with asyncio.timeout(ROW_SECONDS):
            return await row(table, mode)
    except Exception as error:  # noqa: BLE001 - a row that fails must not hide the others
        return Result(0, 1, repr(error)[:200])


async def show_rows(table: Table, rows: list[tuple[str, Row]]) -> bool:
    is_held = True
    for name, row in rows:
        for mode in MODES:
            started = time.monotonic()
            result = await try_row(table, row, mode)
            is_held &= result.good == result.tries
            generation = "stateless" if mode == MODERN else "handshake"
            seconds = time.monotonic() - started
            cells = (
                name,
                generation,
                f"{result.good}/{result.tries}",
                f"{seconds:.1f}",
                result.remark,
            )
            sys.stdout.write(f"| {' | '.join(cells)} |\n")
            sys.stdout.flush()
            # A row may end a replica.
            if any(r.process.poll() is not None for r in table.replicas):
                table.replicas = [r for r in table.replicas if r.process.poll() is None]
    return is_held


def show_latencies(table: Table) -> bool:
    sys.stdout.write("\n| time | ms | at most |\n|---|---|---|\n")
    is_held = True
    for each in measure(table):
        sys.stdout.write(f"| {each.name} | {each.ms:.2f} | {each.limit_ms:g} |\n")
        is_held &= each.ms <= each.limit_ms
    return is_held


async def main(words: list[str]) -> int:
    logging.disable(logging.ERROR)  # the table is enough
    rows = [(n, row) for n, row in ROWS + FAILURES if not words or any(w in n for w in words)]
    with tempfile.TemporaryDirectory() as home, upstreams(Path(home)) as servers:
        fleet = Fleet(Path(home), servers, gateway={"surface": "load"})
        with fleet.replicas("a", "b", "c") as replicas:
            async with round_robin([r.url for r in replicas]) as url:
                table = Table(fleet, replicas, url, Path(home))
                is_held = words != [] or show_latencies(table)
                sys.stdout.write(
                    "\n| tried | protocol | as it should be | seconds | |\n|---|---|---|---|---|\n"
                )
                is_held &= await show_rows(table, rows)
    return 0 if is_held else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
