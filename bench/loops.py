"""What compiling the inner loops is worth: searches by words with both, taking turns.

python bench/loops.py
"""

from __future__ import annotations

import sys
import time
from statistics import median
from types import ModuleType

from catalogs import DATA, available, real_queries, tools
from toolscout.catalog.catalog import Catalog
from toolscout.search import kernel
from toolscout.search.engine import Engine
from toolscout.search.kernel import plain

LOOPS = ("score_slots", "idf_mass", "order_slots", "clause_scores", "diverse_order")
SIZES = (1_000, 10_000, 100_000)
ROUNDS = 4


def use(loops: ModuleType) -> None:
    for name in LOOPS:
        setattr(kernel, name, getattr(loops, name))


def timed(engine: Engine, queries: list[str]) -> list[float]:
    """How long single searches take, in milliseconds."""
    found: list[float] = []
    for query in queries:
        started = time.perf_counter()
        engine.search(query, limit=10)
        found.append((time.perf_counter() - started) * 1e3)
    return found


def main() -> None:
    try:
        from toolscout.search.kernel import compiled
    except OSError:
        sys.exit("Nothing was compiled here: there was no C compiler to install with.")
    if not available():
        sys.exit(f"The public sets are not at {DATA}: set TOOLSCOUT_DATA to their folder.")
    queries = real_queries(600)
    print("| tools | compiled, median | in NumPy, median | times as long |")
    print("|---|---|---|---|")
    for size in SIZES:
        engine = Engine(Catalog(tools(size)))
        timed(engine, queries)  # what a word is to a catalog is worked out once
        times: dict[ModuleType, list[float]] = {compiled: [], plain: []}
        for number in range(ROUNDS):
            for loops in times:
                use(loops)
                times[loops] += timed(engine, queries[number::ROUNDS])
        fast, slow = median(times[compiled]), median(times[plain])
        print(f"| {size:,} | {fast:.3f} ms | {slow:.3f} ms | {slow / fast:.1f} |", flush=True)


if __name__ == "__main__":
    main()
