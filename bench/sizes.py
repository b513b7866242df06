"""Catalogs of the sizes that speed is measured at, made once and kept."""

from __future__ import annotations

import hashlib
import json
import random
from functools import cache
from pathlib import Path

from toolscout.search.clauses import split_clauses

from . import catalogs
from .vectors import POOL, pool
from .work import FOLDER


def tools_file(count: int) -> Path:
    """A file of so many recombined tools; anew when the generator or its sources change."""
    path = FOLDER / f"tools-{count}-{_digest()}.jsonl"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        with unfinished.open("w", encoding="utf-8") as lines:
            for row in catalogs.recombined(count):
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
        unfinished.replace(path)
    return path


def pool_file() -> Path:
    """A file of really encoded texts of real tools, to recombine vectors from."""
    real = catalogs.real_tools()
    random.Random(7).shuffle(real)
    texts = [f"{row['name']}: {row.get('description') or ''}"[:600] for row in real[:POOL]]
    return pool(texts, FOLDER / f"pool-{POOL}-{_digest()}.npy")


def real_queries(count: int) -> list[str]:
    """Real requests of all lengths."""
    return catalogs.real_queries(count)


def one_clause_queries(count: int) -> list[str]:
    """Real requests that ask for one thing."""
    return list(_one_clause()[:count])


@cache
def _one_clause() -> tuple[str, ...]:
    every = catalogs.real_queries(1 << 30, seed=11)
    return tuple(query for query in every if len(split_clauses(query)) == 1)


def _digest() -> str:
    """What the catalogs depend on: the generator, and how large each source is."""
    sources = sorted(catalogs.DATA.glob("*/tools.jsonl"))
    parts = [Path(catalogs.__file__).read_text(encoding="utf-8")]
    parts += [f"{path.parent.name} {path.stat().st_size}" for path in sources]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=6).hexdigest()
