"""How long the pages of the console take with 10,000 tools and a million rows in the journal.

python -m bench.console_pages [--tools 10000] [--rows 1000000] [--repeat 5] [--embedder none]

With another embedder, there is also as much learned state as is ever kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from os import environ
from pathlib import Path

import httpx2
import numpy as np

from toolscout.config import Config
from toolscout.embedders import load_embedders
from toolscout.gateway.operations.statistics_record import Tally
from toolscout.gateway.operations.statistics_store import HOURS, StatisticsBatch, StatisticsStore
from toolscout.learning.buffer import MAX_ROWS
from toolscout.learning.observation import Observation
from toolscout.store.log_contract import LogRow
from toolscout.store.sqlite_log import SqliteLog
from toolscout.toolbox.learning_settings import open_replay_buffer

# Plain JSON-RPC: building thousands of tools with a library takes longer than the gateway waits.
SERVER = """
import json, random, sys
words = "order invoice customer mail file image report ticket user stock price city".split()
verbs = "find list create update delete send export count copy archive".split()
random.seed(1)
def build(number):
    verb, one, two = random.choice(verbs), random.choice(words), random.choice(words)
    return {"name": f"{verb}_{one}_{two}_{number}",
            "description": f"{verb.title()} the {one} of a {two}, kind {number}.",
            "inputSchema": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string", "description": f"Which {one}"},
                "limit": {"type": "integer", "default": 10}}}}
tools = [build(number) for number in range(COUNT)]
info = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
        "serverInfo": {"name": "big", "version": "1"}}
results = {"initialize": info, "tools/list": {"tools": tools}, "ping": {}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message.get("method") in results:
        answer["result"] = results[message["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"""
HTML = {"accept": "text/html"}
PATHS = {
    "Overview": "",
    "Live": "/live",
    "Live, one tool": "/live?tool=big__tool_77",
    "Live, one principal and outcome": "/live?principal=user7&outcome=error",
    "Live, a tool and an outcome that never met": "/live?tool=big__tool_77&outcome=refused",
    "Live, a page in the middle": "/live?before=500000",
    "Live, before a moment": "/live?until=2026-01-06T00:00",
    "Playground, a search": "/playground?query=send+the+invoice+of+a+customer",
    "Playground, with the rank of a tool": "/playground?query=send+invoice&tool={tool}",
    "A tool": "/playground/tools/{tool}",
    "Servers": "/servers",
    "A server": "/servers/big",
    "A server, some tools": "/servers/big?find=invoice&page=3",
    "Misses": "/misses",
    "Sessions": "/sessions",
    "A session": "/sessions/session7",
    "Policies": "/policies?principal=user7",
    "Learning": "/learning",
    "Savings and health": "/savings",
    "Savings and health, a week": "/savings?range=week",
    "Savings and health, a month": "/savings?range=month",
    "Savings and health, a month of one tool": "/savings?range=month&tool=big__tool_77",
}
START = 1_767_225_600.0  # 2026-01-01


def write_rows(path: Path, count: int) -> None:
    """Rows as a gateway writes them, in one transaction."""
    log = SqliteLog(path)
    log.append(LogRow(id="first", time=START, kind="server", server="big", outcome="ready"))
    log.close()
    random.seed(2)
    hits = json.dumps({"hits": [[f"big__tool_{n}", 1.5] for n in range(5)], "confidence": 0.7,
                       "queries": 1, "query_chars": 30, "shape": {"query": "str(30)"}})  # fmt: skip
    call = json.dumps({"shape": {"id": "str(4)", "limit": "int"}})
    names = "id, parent, time, kind, session, principal, client, tool, server, outcome, took_ms,"
    insert = f"INSERT INTO log ({names} process, data, vector) VALUES (?{', ?' * 13})"

    def row(number: int) -> tuple[object, ...]:
        is_search = number % 3 == 0
        user, tool = f"user{random.randrange(50)}", f"big__tool_{random.randrange(10_000)}"
        outcome = "error" if random.random() < 0.03 else "ok"
        if is_search:
            tool = "tool_search"
        kind, data = ("search", hits) if is_search else ("call", call)
        session = f"session{random.randrange(2_000)}"
        server = "" if is_search else "big"
        return (f"{number:016x}", "", START + number, kind, session, user, "bench", tool, server,
                outcome, 12.0, "", data, b"")  # fmt: skip

    with sqlite3.connect(path) as sql:
        sql.executemany(insert, map(row, range(count)))
    sql.close()


def write_figures(config: Config) -> None:
    """A month of calls, with as many tools in every hour and day as have figures of their own."""
    random.seed(3)
    now = time.time()
    with closing(StatisticsStore.open(config)) as store:
        for hour in reversed(range(30 * 24)):
            tally = Tally()
            for _ in range(2 * HOURS.max_tools):
                name = "big", f"big__tool_{random.randrange(10_000)}"
                tally.add_call(name, random.expovariate(0.01), is_error=random.random() < 0.03)
            store.add(StatisticsBatch(str(hour), now - hour * HOURS.seconds, tally))


def write_observations(config: Config) -> None:
    """As many observations as are kept, of 2,000 tools and 30 principals."""
    random.seed(4)
    rng = np.random.default_rng(4)
    embedder = load_embedders(config.embedder)[0]
    vectors = rng.standard_normal((MAX_ROWS, embedder.dimensions))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = [
        Observation(
            id=f"{number:08}", turn=f"{number}", time=START + number,
            principal=f"{number % 30}", vector=vector.astype(np.float16).tobytes(),
            called={(tool := f"{random.randrange(2_000)}"): f"big__tool_{tool}"},
            shown={f"{random.randrange(2_000)}": random.random() * 3 for _ in range(10)},
        )
        for number, vector in enumerate(vectors)
    ]  # fmt: skip
    with open_replay_buffer(config, embedder) as buffer:
        buffer.append(rows)


async def measure(base: str, repeat: int) -> list[tuple[str, float, float]]:
    async with httpx2.AsyncClient(base_url=base, headers=HTML, timeout=120) as http:
        page = (await http.get("/console/playground?query=send+invoice&limit=5")).text
        tool = re.findall(r"playground/tools/([\w%-]+)", page)[0]
        found = []
        for name, path in PATHS.items():
            times = []
            for _ in range(repeat):
                started = time.perf_counter()
                answer = await http.get(f"/console{path.format(tool=tool)}")
                times.append((time.perf_counter() - started) * 1_000)
                assert answer.status_code == 200, (path, answer.status_code, answer.text[:500])
            found.append((name, statistics.median(times), max(times)))
        return found


async def wait_until_ready(base: str, tools: int) -> None:
    async with httpx2.AsyncClient(base_url=base, timeout=60) as http, asyncio.timeout(180):
        while (await http.get("/health")).json().get("tools", 0) < tools:  # noqa: ASYNC110
            await asyncio.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--embedder", default="none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = folder / "home"
        config = Config.read(home=str(home), embedder=options.embedder)
        config.state_folder.mkdir(parents=True)
        started = time.perf_counter()
        write_rows(config.state_folder / "journal.db", options.rows)
        print(f"{options.rows:,} rows written in {time.perf_counter() - started:.0f} s")
        write_figures(config)
        if options.embedder != "none":
            write_observations(config)
        (folder / "big.py").write_text(SERVER.replace("COUNT", str(options.tools)))
        entry = {"command": sys.executable, "args": [str(folder / "big.py")]}
        policies = {"some": {"principals": ["user7"], "deny": ["*delete*"]}, "all": {}}
        document = {"mcpServers": {"big": entry}, "policies": policies}
        (folder / "mcp.json").write_text(json.dumps(document))
        log = folder / "log.txt"
        with log.open("wb") as stderr, subprocess.Popen(
            [sys.executable, "-m", "toolscout.cli", "serve", "--config", "mcp.json", "--http", "0"],
            cwd=folder, stderr=stderr,
            env={**environ, "TOOLSCOUT_HOME": str(home), "TOOLSCOUT_EMBEDDER": options.embedder,
                 "TOOLSCOUT_JOURNAL_DAYS": "0", "TOOLSCOUT_JOURNAL_MAX_MB": "100000"},
        ) as gateway:  # fmt: skip
            try:
                while not (url := re.search(r"http://[\d.:]+(?=/mcp)", log.read_text())):
                    assert gateway.poll() is None, log.read_text()
                    time.sleep(0.2)
                asyncio.run(wait_until_ready(url[0], options.tools))
                for page, median, worst in asyncio.run(measure(url[0], options.repeat)):
                    print(f"{page:<45} median {median:7.1f} ms   worst {worst:7.1f} ms")
            finally:
                gateway.kill()


if __name__ == "__main__":
    main()
