"""How much memory a cold start from cached vectors needs: `python -m bench.start_memory [TOOLS]`.

The vectors are in the cache before; they are recombined, see `bench.vectors`. Each start is a
process of its own: `toolscout search` with a catalog of 100,000 tools, whose peak is printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from toolscout.catalog.tool import Tool
from toolscout.embedders.cache import VectorCache, vector_key
from toolscout.embedders.tool_texts import embedding_input
from toolscout.embedders.universal_encoder import UniversalEncoder
from toolscout.sources.files import read_tools

from .sizes import pool_file, tools_file
from .vectors import Recombined
from .work import FOLDER

TOOLS = 100_000
AIM_MB = 650
QUERY = "send an email with an invoice to a customer"
_BATCH = 1_000
# The child reports its own peak, which no process around it is part of.
_RUN = """
import resource, sys, time
from toolscout.__main__ import main
started = time.process_time()
try:
    main()
finally:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"\\npeak {peak} cpu {time.process_time() - started:.1f}", file=sys.stderr)
"""


def filled_cache(file: Path) -> Path:
    """A cache folder with a vector of every tool, keyed as the bundled encoder's are."""
    folder = FOLDER / f"home-{file.stem}" / "cache"
    if not (done := folder / "done").is_file():
        embedder = Recombined(pool_file())
        cache = VectorCache(folder / "vectors.db")
        for batch in _batches(read_tools(file).tools):
            texts = [embedding_input(tool) for tool in batch]
            keys = [vector_key(UniversalEncoder.id, ((text, 1.0),)) for text in texts]
            cache.put(zip(keys, embedder.encode(texts), strict=True))
        cache.close()
        done.touch()
    return folder


def _batches(tools: Sequence[Tool]) -> Iterator[list[Tool]]:
    rest = iter(tools)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def start(file: Path, cache: Path, *options: str) -> dict[str, Any]:
    """One start: its peak, its CPU time and what it found."""
    command = [sys.executable, "-c", _RUN, "search", QUERY, "--catalog", str(file), "--json"]
    environment = {**os.environ, "TOOLSCOUT_HOME": str(cache.parent)}
    run = subprocess.run(
        [*command, *options], capture_output=True, check=False, text=True, env=environment
    )
    words = run.stderr.split()
    found = json.loads(run.stdout)
    return {
        "peak_mb": int(words[words.index("peak") + 1]),
        "cpu_s": float(words[words.index("cpu") + 1]),
        "notes": found["notes"],
        "hits": [[hit["name"], hit["score"]] for hit in found["hits"]],
    }


def prepare(count: int) -> tuple[Path, Path]:
    """The catalog and the cache, made by another process."""
    # The peak of a process is counted among those of the programs that it starts.
    command = [sys.executable, "-m", "bench.start_memory", str(count), "--prepare"]
    made = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    file, cache = made.stdout.splitlines()[-2:]
    return Path(file), Path(cache)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else TOOLS
    if "--prepare" in sys.argv:
        file = tools_file(count)
        print(file, filled_cache(file), sep="\n")
        return
    file, cache = prepare(count)
    start(file, cache)  # the words of the glossary are encoded once
    found = {
        "tools": count,
        "aim_mb": AIM_MB,
        "cached vectors": start(file, cache),
        "no vectors": start(file, cache, "--embedder", "none"),
    }
    print(json.dumps(found, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
