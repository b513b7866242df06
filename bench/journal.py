"""What the journal adds to a call: `python bench/journal.py [--calls 3000] [--rows 0] [--json]`.

With `--chain`, what the hash chain adds to the two writes of a call instead: logs without a chain,
with one and with a key take turns, and the last figures are ratios of the medians.

Calls of a trivial tool with and without a journal take turns in one process, so that a busy machine
slows both alike. `write_ms` is the time of the two writes alone, `added_ms` the difference between
the medians of whole calls. With `--rows`, the journal is first filled with that many rows, and
filtered reads over them are timed too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

from toolscout import Session, Toolbox, tool
from toolscout.config import Config
from toolscout.events import Event, ToolCallEvent, ToolCallStartEvent, new_id
from toolscout.journal.journal import Journal
from toolscout.store.chain_verification import verify_chain
from toolscout.store.log_chain import ChainOptions
from toolscout.store.log_contract import LogFilter, LogRow
from toolscout.store.sqlite_log import SqliteLog

FILTERS = {
    "newest": LogFilter(),
    "session": LogFilter(session="session-77"),
    "tool": LogFilter(tool="tool-77", kind="call"),
    "rare outcome": LogFilter(outcome="timeout"),
    "no such outcome": LogFilter(outcome="never"),
    "last minute": LogFilter(since=999_940.0),
    "running": LogFilter(is_open=True),
}


class TimedSink:
    """Passes events on and adds up the time that takes for each call."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._start_ms = 0.0
        self.write_ms: list[float] = []

    def __call__(self, event: Event) -> None:
        started = time.perf_counter()
        self._journal(event)
        took_ms = (time.perf_counter() - started) * 1_000
        match event:
            case ToolCallStartEvent():
                self._start_ms = took_ms
            case ToolCallEvent():
                self.write_ms.append(self._start_ms + took_ms)
            case _:
                pass


@tool
def ring(times: int = 1, note: str = "") -> str:
    """Ring the bell."""
    return "ding " * times + note


async def time_call(session: Session) -> float:
    started = time.perf_counter()
    await session.call("ring", {"times": 1, "note": "for the house"})
    return (time.perf_counter() - started) * 1_000


async def measure_calls(path: Path, calls: int) -> dict[str, float]:
    journal = Journal(SqliteLog(path))
    sink = TimedSink(journal)
    config = Config.read(embedder="none", store="memory")
    plain: list[float] = []
    recorded: list[float] = []
    async with (
        Toolbox([ring], config=config) as without,
        Toolbox([ring], config=config, sink=sink) as with_journal,
    ):
        quiet, kept = await without.session("quiet"), await with_journal.session("kept")
        for _ in range(calls):
            plain.append(await time_call(quiet))
            recorded.append(await time_call(kept))
    assert journal.status.status == "ok"
    journal.close()
    return {
        "call_ms": statistics.median(plain),
        "with_journal_ms": statistics.median(recorded),
        "added_ms": statistics.median(recorded) - statistics.median(plain),
        "added_mean_ms": statistics.mean(recorded) - statistics.mean(plain),
        "write_ms": statistics.median(sink.write_ms),
        "write_mean_ms": statistics.mean(sink.write_ms),
        "write_p99_ms": statistics.quantiles(sink.write_ms, n=100)[-1],
    }


def measure_chain(folder: Path, calls: int) -> dict[str, float]:
    key = b"0123456789abcdef0123456789abcdef"
    logs = {
        "plain": SqliteLog(folder / "plain.db"),
        "chain": SqliteLog(folder / "chain.db", chain=ChainOptions(is_on=True)),
        "key": SqliteLog(folder / "key.db", chain=ChainOptions(is_on=True, keys=(key,))),
    }
    took: dict[str, list[float]] = {name: [] for name in logs}
    for number in range(calls):
        row = replace(made_up_row(number, calls), outcome=None)
        for name, log in logs.items():
            started = time.perf_counter()
            log.append(row)
            log.complete(row.id, outcome="ok", took_ms=1.0)
            took[name].append((time.perf_counter() - started) * 1_000)
    sizes = {name: log.size().bytes / calls for name, log in logs.items()}
    for log in logs.values():
        log.close()
    started = time.perf_counter()
    assert verify_chain(folder / "key.db", keys=[key]).is_intact
    verify_seconds = time.perf_counter() - started
    median = {name: statistics.median(values) for name, values in took.items()}
    return {
        **{f"write_ms, {name}": value for name, value in median.items()},
        **{f"bytes_per_call, {name}": value for name, value in sizes.items()},
        "verify_rows_per_second": calls / verify_seconds,
        "chain / plain": median["chain"] / median["plain"],
        "key / plain": median["key"] / median["plain"],
    }


def fill(path: Path, rows: int) -> None:
    """Rows in one transaction, which is much faster than one by one."""
    log = SqliteLog(path)
    log.append(LogRow(id=new_id(), time=0.0, kind="server", outcome="ready"))
    log.close()
    names = [f.name for f in fields(LogRow) if f.name != "sequence"]
    values = (tuple(getattr(made_up_row(n, rows), name) for name in names) for n in range(rows))
    with closing(sqlite3.connect(path)) as raw, raw:
        marks = ", ".join("?" * len(names))
        raw.executemany(f"INSERT INTO log ({', '.join(names)}) VALUES ({marks})", values)


def made_up_row(number: int, rows: int) -> LogRow:
    return LogRow(
        id=new_id(),
        time=1_000_000.0 - (rows - number) / 1_000,
        kind="search" if number % 5 == 0 else "call",
        session=f"session-{number % 2_000}",
        principal=f"person-{number % 50}",
        tool=f"tool-{number % 500}",
        server=f"server-{number % 20}",
        outcome="timeout" if number % 10_000 == 1 else "ok",
        took_ms=1.0,
        data='{"shape":{"times":"number","note":"text(13)"}}',
    )


def measure_reads(path: Path) -> dict[str, float]:
    log = SqliteLog(path)
    figures: dict[str, float] = {"bytes_per_row": log.size().bytes / log.size().rows}
    for name, where in FILTERS.items():
        started = time.perf_counter()
        log.read(where, limit=100)
        figures[f"read {name}, ms"] = (time.perf_counter() - started) * 1_000
    log.close()
    return figures


def measure(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    if options.chain:
        return measure_chain(folder, options.calls)
    path = folder / "journal.db"
    fill(path, options.rows)
    figures = asyncio.run(measure_calls(path, options.calls))
    return {**figures, **measure_reads(path)} if options.rows else figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=3_000)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--chain", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:28} {value:9.3f}")


if __name__ == "__main__":
    main()
