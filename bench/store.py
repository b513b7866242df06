"""How fast the stores are: `python -m bench.store [--count 500] [--json]`.

Reads, writes and notifications in memory, in SQLite and in PostgreSQL take turns in one run, so
that a busy machine slows all alike. The PostgreSQL server is a real one on this machine that waits
for its disk. `plain fsync` is one write of 8 kB with fsync to the same disk, for comparison.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import Queue

from tests.store.postgres_server import Server

from toolscout.store.change_feed import Change, ChangeFeed, MemoryFeed
from toolscout.store.contract import Store
from toolscout.store.memory import MemoryStore
from toolscout.store.postgres import PostgresStore
from toolscout.store.postgres_feed import open_postgres_feed
from toolscout.store.sqlite import SqliteStore
from toolscout.store.sqlite_feed import open_sqlite_feed

AIMS_MS = {"get": 1.0, "put": 5.0, "notify": 10.0}
"""For PostgreSQL: get and put at the median, notify at the 95th percentile."""
TEXT = json.dumps({"loaded": [f"server__tool_{n}" for n in range(40)]})

Timings = dict[str, list[float]]


def timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return (time.perf_counter() - started) * 1_000


def measure(stores: dict[str, Store], feeds: dict[str, ChangeFeed], count: int) -> Timings:
    times: Timings = {}
    inboxes: dict[str, Queue[Change]] = {name: Queue() for name in feeds}
    for name, feed in feeds.items():
        feed.subscribe(inboxes[name].put)

    def notify(name: str, payload: str) -> None:
        feeds[name].publish("bench", payload)
        assert inboxes[name].get(timeout=10).payload == payload

    for number in range(count):
        key = str(number)
        for name, store in stores.items():
            for what, act in (
                ("put", partial(store.put, key, TEXT, expected=0)),
                ("get", partial(store.get, key)),
                ("put again", partial(store.put, key, TEXT, expected=1)),
                ("notify", partial(notify, name, key)),
            ):
                times.setdefault(f"{name} {what}", []).append(timed(act))
    return times


def measure_disk(folder: Path, count: int) -> list[float]:
    page = b"x" * 8_192
    with (folder / "page").open("wb", buffering=0) as file:

        def write() -> None:
            file.write(page)
            os.fsync(file.fileno())

        return [timed(write) for _ in range(count)]


def figures(times: Timings) -> dict[str, dict[str, float]]:
    return {
        name: {
            "p50_ms": round(statistics.median(values), 3),
            "p95_ms": round(statistics.quantiles(values, n=20)[-1], 3),
        }
        for name, values in times.items()
    }


def run(folder: Path, count: int) -> dict[str, dict[str, float]]:
    server = Server(waits_for_disk=True).start()
    try:
        url = server.new_database()
        stores: dict[str, Store] = {
            "memory": MemoryStore(),
            "sqlite": SqliteStore(folder / "store.db"),
            "postgresql": PostgresStore(url),
        }
        feeds: dict[str, ChangeFeed] = {
            "memory": MemoryFeed(),
            "sqlite": open_sqlite_feed(folder / "changes.db"),
            "postgresql": open_postgres_feed(url),
        }
        times = measure(stores, feeds, count)
        times["plain fsync"] = measure_disk(server.folder, count)
        for part in (*stores.values(), *feeds.values()):
            part.close()
    finally:
        server.stop()
    return figures(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(Path(folder), options.count)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'':22} {'p50 ms':>9} {'p95 ms':>9}   aim")
    for name, values in found.items():
        what = name.removeprefix("postgresql ").removesuffix(" again")
        percentile = "p95" if what == "notify" else "p50"
        aim = f"{percentile} ≤ {AIMS_MS[what]:g}" if what in AIMS_MS else ""
        print(f"{name:22} {values['p50_ms']:9.3f} {values['p95_ms']:9.3f}   {aim}")


if __name__ == "__main__":
    main()
