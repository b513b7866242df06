"""Rows of the table of `make fleet` in which something fails: a replica, or the database."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from uuid import uuid4

import psycopg
from mcp import Client
from tests.fleet.replicas import call, text
from tests.fleet.rows import Result, Row, Table, client
from tests.store.postgres_server import shared_server

IN_FLIGHT = 8
FROZEN_SECONDS = 6.0
MAX_SECONDS = 3.0
# Once it is known that the database does not answer.
AT_ONCE_SECONDS = 1.5
BACK_SECONDS = 30.0


def _effects(table: Table, run: str) -> Counter[str]:
    file = table.folder / "effects"
    lines = file.read_text().split() if file.exists() else []
    return Counter(line for line in lines if line.startswith(run))


def _journalled(table: Table) -> int:
    query = b"SELECT count(*) FROM toolscout_log WHERE kind = 'call' AND tool = 'work__effect'"
    with psycopg.connect(table.fleet.database) as sql:
        (count,) = sql.execute(query).fetchone() or (0,)
    return count


async def _act(caller: Client, tag: str, seconds: float) -> bool:
    try:
        result = await call(caller, "work__effect", tag=tag, seconds=seconds)
    except Exception:  # noqa: BLE001 - a call may fail when its replica is killed
        return False
    return text(result) == f"left {tag}"


async def kill_a_replica(table: Table, mode: str) -> Result:
    """Calls in flight run at most once, and each that ran is in the journal."""
    run, before = uuid4().hex[:8], _journalled(table)
    callers = [client(table.url, mode) for _ in range(IN_FLIGHT)]

    async def act(number: int) -> bool:
        try:
            async with callers[number] as caller:
                return await _act(caller, f"{run}-{number}", 3.0)
        except Exception:  # noqa: BLE001 - its session ended with the replica
            return False

    tasks = [asyncio.create_task(act(number)) for number in range(IN_FLIGHT)]
    deadline = time.monotonic() + BACK_SECONDS
    # Other processes write the file, so there is nothing to wait for but the file.
    while len(_effects(table, run)) < IN_FLIGHT and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    victim = table.replicas[-1].process
    victim.kill()
    victim.wait()
    answered = sum(await asyncio.gather(*tasks))
    effects = _effects(table, run)
    missing = max(0, effects.total() - (_journalled(table) - before))
    twice = effects.total() - len(effects)
    async with client(table.url, mode) as caller:
        goes_on = await _act(caller, f"{run}-after", 0)
    remark = f"{answered} answered, {twice} twice, {missing} not in the journal"
    return Result(len(effects) - twice - missing + goes_on, IN_FLIGHT + 1, remark)


async def kill_the_database(table: Table, mode: str) -> Result:
    """What was acknowledged is still there, no call runs twice, and calls go on."""
    run, server, tries = uuid4().hex[:8], shared_server(), 10
    meta = {"toolscout/session": run}
    names = {f"work__task{number}" for number in range(3)}

    async def listed() -> set[str]:
        async with client(table.url, "2026-07-28") as caller:
            return {tool.name for tool in (await caller.list_tools(meta=meta)).tools} & names

    async with client(table.url, "2026-07-28") as caller:
        for name in names:
            await caller.call_tool("tool_search", {"query": f"select:{name}"}, meta=meta)
    async with client(table.url, mode) as caller:
        before = _journalled(table)
        acknowledged = [await _act(caller, f"{run}-{n}", 0) for n in range(tries)]
        server.kill()
        during = [await _act(caller, f"{run}-away-{n}", 0) for n in range(tries)]
        server.start()
        started, back = time.monotonic(), 0.0
        while not back and time.monotonic() - started < BACK_SECONDS:
            with suppress(Exception):
                if await listed() == names:
                    back = time.monotonic() - started
    effects = _effects(table, run)
    lost = max(0, sum(acknowledged) - (_journalled(table) - before))
    twice = effects.total() - len(effects)
    good = sum(acknowledged) + sum(during) - lost - twice + bool(back)
    remark = f"{lost} lost, {twice} twice, sessions back after {back:.1f} s"
    return Result(good, 2 * tries + 1, remark)


async def freeze_the_database(table: Table, mode: str) -> Result:
    """The first request waits at most 3 s, and the others hardly at all."""
    server, run, took = shared_server(), uuid4().hex[:8], list[float]()
    good = 0
    async with client(table.url, mode) as caller:
        await _act(caller, f"{run}-before", 0)
        server.freeze()
        try:
            until = time.monotonic() + FROZEN_SECONDS
            while time.monotonic() < until:
                started = time.monotonic()
                is_answered = await _act(caller, f"{run}-{len(took)}", 0)
                took.append(time.monotonic() - started)
                # Each of the replicas has to notice by itself.
                limit = MAX_SECONDS if len(took) <= len(table.replicas) else AT_ONCE_SECONDS
                good += is_answered and took[-1] < limit
                await asyncio.sleep(0.2)
        finally:
            server.thaw()
    return Result(good, len(took), f"longest {max(took):.1f} s, last {took[-1]:.1f} s")


FAILURES: list[tuple[str, Row]] = [
    ("the database is frozen", freeze_the_database),
    ("the database is killed and starts again", kill_the_database),
    ("a replica is killed with 8 calls in flight", kill_a_replica),
]
