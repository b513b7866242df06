"""What it costs to keep a large JSON result aside and to read it back.

    python bench/offload.py [--megabytes 50] [--json]

Each figure is taken in a process of its own, so that peaks do not add up. Memory is how far the
resident peak rises above what the process holds with the result in hand, as a multiple of its size
(Linux only: the kernel's peak is reset before each measurement). `child_x` is the peak of the
process that runs jq, its Python included, as it was last seen.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolscout.catalog.result import Content, Result
from toolscout.catalog.tool import Tool
from toolscout.disclosure.feature import DetachedSession
from toolscout.offload.limits import OffloadLimits
from toolscout.offload.result_store import ResultStore
from toolscout.tokens import get_counter

TOOL = Tool(name="export")
LIMITS = OffloadLimits(query_seconds=60.0)


def document(megabytes: int) -> str:
    """Records as services send them: mixed types, some text beyond ASCII, one endless line."""
    rows: list[str] = []
    size = 0
    for number in range(1 << 40):
        row = {
            "id": number,
            "name": f"Item {number} – Größe {number % 97}",
            "tags": ["new", f"t{number % 13}"],
            "price": number * 0.25,
            "place": {"city": "Zürich", "zip": 8000 + number % 90},
        }
        text = json.dumps(row, ensure_ascii=False)
        rows.append(text)
        size += len(text.encode()) + 2
        if size >= megabytes << 20:
            break
    return '{"total": ' + str(len(rows)) + ', "items": [' + ", ".join(rows) + "]}"


def resident(field: str, process: str = "self") -> int:
    """Bytes a process holds now (VmRSS), or held at most since the last reset (VmHWM)."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024


def reset_peak() -> int:
    """Forget the peak so far; give what is held now."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


@contextmanager
def children() -> Iterator[list[int]]:
    """Look at the peaks of child processes again and again; they only grow, so the last counts."""
    peaks: list[int] = []
    done = threading.Event()
    listing = Path(f"/proc/self/task/{os.getpid()}/children")

    def look() -> None:
        while not done.wait(0.01):
            for process in listing.read_text().split():
                # A child that has just ended has no memory left to tell of.
                with suppress(OSError, IndexError):
                    peaks.append(resident("VmHWM", process))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peaks
    finally:
        done.set()
        thread.join()


def keep(folder: str, megabytes: int) -> dict[str, float]:
    text = document(megabytes)
    size = len(text.encode())
    shelf = ResultStore(folder, limits=LIMITS)
    get_counter().count("warm")
    before, started = reset_peak(), time.perf_counter()
    kept = asyncio.run(shelf.keep(DetachedSession("bench"), TOOL, Result((Content(text=text),))))
    took = time.perf_counter() - started
    assert "kept aside" in kept.text
    assert "elements" in kept.text
    growth = (resident("VmHWM") - before) / size
    return {"size_mb": size / 2**20, "took_s": took, "peak_x": growth}


def call(folder: str, arguments: dict[str, object], times: int = 5) -> dict[str, float]:
    (path,) = Path(folder).rglob("tool_*")
    shelf = ResultStore(folder, limits=LIMITS)
    (tool,) = shelf.tools()
    get_counter().count("warm")
    before = reset_peak()
    seconds: list[float] = []
    with children() as peaks:
        for _ in range(times):
            started = time.perf_counter()
            answer = asyncio.run(
                shelf.call(DetachedSession("bench"), tool, {"filename": path.name, **arguments})
            )
            seconds.append(time.perf_counter() - started)
            assert not answer.is_error, answer.text
    growth = (resident("VmHWM") - before) / path.stat().st_size
    figures = {"median_s": statistics.median(seconds), "max_s": max(seconds), "peak_x": growth}
    if peaks:
        figures["child_x"] = peaks[-1] / path.stat().st_size
    return figures


def refused(folder: str, program: str) -> str:
    (path,) = Path(folder).rglob("tool_*")
    shelf = ResultStore(folder, limits=LIMITS)
    (tool,) = shelf.tools()
    arguments = {"filename": path.name, "operation": "query", "query": program}
    return asyncio.run(shelf.call(DetachedSession("bench"), tool, arguments)).text


def apart(work: Callable[..., object], *arguments: object) -> object:
    """Do something in a fresh process and give back what it returns."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures: dict[str, object] = {"keep": apart(keep, folder, options.megabytes)}
        (path,) = Path(folder).rglob("tool_*")
        total = len(path.read_text())
        calls: dict[str, dict[str, object]] = {
            "read, first page": {"operation": "read", "start": 1, "end": 4_000},
            "read, last page": {"operation": "read", "start": total - 3_999, "end": total},
            "search, far and greedy": {
                "operation": "search",
                "pattern": '"id": 29\\d{4}\\b.*zip',
            },
            "search, no hit": {"operation": "search", "pattern": "no such thing anywhere"},
            "search, fifty hits": {"operation": "search", "pattern": "größe 9[0-6]"},
            "search, anchored": {"operation": "search", "pattern": "^\\s*$"},
        }
        for name, arguments in calls.items():
            figures[name] = apart(call, folder, arguments)
        streamed = {"operation": "query", "query": ".items[] | select(.id == 100000) | .name"}
        figures["query, streamed"] = apart(call, folder, streamed, 1)
        figures["query, not streamable"] = apart(refused, folder, ".items | length")
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, values in figures.items():
        if isinstance(values, dict):
            print(f"{name:28}", "  ".join(f"{k} {v:.3f}" for k, v in values.items()))
        else:
            print(f"{name:28}", values)


if __name__ == "__main__":
    main()
