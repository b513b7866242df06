"""The far end of a comparison: one search in a process of its own, asked in JSON lines.

    python -I worker.py ADAPTER.py OPTIONS

It needs nothing but the standard library and what its adapter imports, so that it runs in the
environment of any peer. An adapter has one class, `Peer`: its constructor makes the library's own
tools of rows, `index` does all that a first search needs, and `search`, `add` and `remove` are what
they say. Whatever goes wrong is an answer too.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_TOLD = 300


def rows(path: str) -> Iterator[dict[str, Any]]:
    """The tools of a file, one at a time: nothing but the library's own copies is kept."""
    with Path(path).open(encoding="utf-8") as lines:
        for line in lines:
            row: dict[str, Any] = json.loads(line)
            schema: dict[str, Any] = row.get("parameters") or {}
            row["parameters"] = {"type": "object", "properties": {}, **schema}
            row["description"] = row.get("description") or ""
            yield row


def resident_mb() -> float:
    """What this process holds now, garbage given back first as far as the system lets it."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class Clock:
    """How long something took: on the wall, and of this process's own work."""

    def __init__(self) -> None:
        self._wall, self._work = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall, time.process_time() - self._work


class Worker:
    """Does what it is asked with one peer."""

    def __init__(self, adapter: str, options: dict[str, Any]) -> None:
        spec = importlib.util.spec_from_file_location("adapter", adapter)
        assert spec is not None
        assert spec.loader is not None
        self._module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self._module)
        self._options = options
        self._peer: Any = None

    def load(self, *, tools: str) -> dict[str, Any]:
        """Make the library's own tools of the rows of a file."""
        before = resident_mb()
        clock = Clock()
        self._peer = self._module.Peer(rows(tools), **self._options)
        seconds, work = clock.read()
        return {"s": seconds, "cpu_s": work, "before_mb": before, "rss_mb": resident_mb()}

    def index(self) -> dict[str, Any]:
        """Do all that the first search would otherwise pay for."""
        clock = Clock()
        self._peer.index()
        seconds, work = clock.read()
        return {"s": seconds, "cpu_s": work, "rss_mb": resident_mb()}

    def search(
        self, *, queries: list[str], budget_s: float | None = None, allow: list[str] | None = None
    ) -> dict[str, Any]:
        """Search one query after another, until all are done or the time is up."""
        extra = {} if allow is None else {"allow": frozenset(allow)}
        names: list[list[str]] = []
        wall: list[float] = []
        work: list[float] = []
        began = time.perf_counter()
        gc.collect()
        for query in queries:
            clock = Clock()
            found = self._peer.search(query, **extra)
            took = clock.read()
            names.append(list(found))
            wall.append(took[0] * 1e3)
            work.append(took[1] * 1e3)
            if budget_s is not None and time.perf_counter() - began > budget_s:
                break
        return {"names": names, "ms": wall, "cpu_ms": work}

    def add(self, *, row: dict[str, Any]) -> dict[str, Any]:
        """Add one tool, and search once more: indexes that follow lazily pay there."""
        return self._changed(lambda: self._peer.add(row), str(row["name"]))

    def remove(self, *, name: str) -> dict[str, Any]:
        """Remove one tool, and search once more."""
        return self._changed(lambda: self._peer.remove(name), name)

    def _changed(self, change: Any, query: str) -> dict[str, Any]:
        clock = Clock()
        change()
        alone = clock.read()
        names = list(self._peer.search(query.replace("_", " ")))
        whole = clock.read()
        settle = getattr(self._peer, "settle", None)
        if settle is not None:
            settle()
        found = ("ms", "cpu_ms", "searched_ms", "searched_cpu_ms")
        values = (*alone, *whole)
        return {"names": names, **{k: v * 1e3 for k, v in zip(found, values, strict=True)}}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints goes where problems go
    worker: Worker | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        operation = asked.pop("op")
        try:
            worker = worker or Worker(sys.argv[1], json.loads(sys.argv[2]))
            said = getattr(worker, operation)(**asked)
        except BaseException as error:  # noqa: BLE001 - any failure of a peer is a result
            told = " ".join(str(error).split())[:_TOLD]
            said = {"error": f"{type(error).__name__}: {told}" if told else type(error).__name__}
        answers.write(json.dumps(said) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
