"""How much memory a cold start from cached vectors needs: `python -m bench.start_memory [TOOLS]`.

The vectors are in the cache before; they are recombined, see `bench.vectors`. Each start is a
process of its own: `toolscout search` with a catalog of 100,000 tools, whose peak is printed. The
last one is on another machine: it reads the vectors from PostgreSQL.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.store.postgres_server import Server

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


def filled_home(file: Path) -> Path:
    """A home with a cache that has a vector of every tool, keyed as the bundled encoder's are."""
    home = FOLDER / f"home-{file.stem}"
    if not (done := home / "done").is_file():
        embedder = Recombined(pool_file())
        cache = VectorCache(home / "cache" / "vectors.db")
        for batch in _batches(read_tools(file).tools):
            texts = [embedding_input(tool) for tool in batch]
            keys = [vector_key(UniversalEncoder.id, ((text, 1.0),)) for text in texts]
            cache.put(zip(keys, embedder.encode(texts), strict=True))
        cache.close()
        done.touch()
    return home


def _batches(tools: Sequence[Tool]) -> Iterator[list[Tool]]:
    rest = iter(tools)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def start(file: Path, home: Path, *options: str, store: str = "sqlite") -> dict[str, Any]:
    """One start: its peak, its CPU time and what it found."""
    command = [sys.executable, "-c", _RUN, "search", QUERY, "--catalog", str(file), "--json"]
    environment = {**os.environ, "TOOLSCOUT_HOME": str(home), "TOOLSCOUT_STORE": store}
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
    """The catalog, and a home with its vectors, made by another process."""
    # The peak of a process is counted among those of the programs that it starts.
    command = [sys.executable, "-m", "bench.start_memory", str(count), "--prepare"]
    made = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    file, home = made.stdout.splitlines()[-2:]
    return Path(file), Path(home)


def measure(file: Path, home: Path) -> dict[str, dict[str, Any]]:
    start(file, home)  # the words of the glossary are encoded once
    found = {
        "no vectors": start(file, home, "--embedder", "none"),
        "cached vectors": start(file, home),
    }
    server = Server().start()
    try:
        url = server.new_database()
        found["cached vectors, to PostgreSQL"] = start(file, home, store=url)
        with TemporaryDirectory() as other:
            found["vectors from PostgreSQL"] = start(file, Path(other), store=url)
    finally:
        server.stop()
    return found


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else TOOLS
    if "--prepare" in sys.argv:
        file = tools_file(count)
        print(file, filled_home(file), sep="\n")
        return
    found = measure(*prepare(count))
    print(json.dumps({"tools": count, "aim_mb": AIM_MB, **found}, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
