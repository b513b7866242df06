"""Catalogs of any size, recombined from real tools by a seeded generator, and real queries.

python bench/catalogs.py 10000 > tools.jsonl
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolscout.catalog.schema import Schema
from toolscout.catalog.tool import Tool

DATA = Path(os.environ.get("TOOLSCOUT_DATA", Path(__file__).parents[2] / "shared" / "data"))
SETS = (
    "azure_mcp",
    "bfcl",
    "seal_tools",
    "docker_catalog",
    "github_mcp_catalog",
    "toucan_catalog",
)
"""The public sets whose tools benchmarks recombine."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_PART = re.compile(r"[A-Za-z][a-z]+|[A-Z]+(?![a-z])|\d+")


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def available() -> bool:
    """Whether the public sets are here; benchmarks say so and stop where they are not."""
    return all((DATA / name / "tools.jsonl").is_file() for name in SETS)


def real_tools() -> list[dict[str, Any]]:
    """Every real tool of the public sets."""
    return [row for name in SETS for row in rows(DATA / name / "tools.jsonl")]


def real_queries(count: int, *, seed: int = 7) -> list[str]:
    """Real requests of all lengths, one-clause and longer, in a fixed shuffle."""
    found = [
        row["query"]
        for name in ("azure_mcp", "bfcl", "seal_tools")
        for row in rows(DATA / name / "queries.jsonl")
    ]
    random.Random(seed).shuffle(found)
    return found[:count]


def recombined(count: int, *, seed: int = 7) -> Iterator[dict[str, Any]]:
    """Rows that read like tools: a verb of one, the object of another, sentences of both."""
    chance = random.Random(seed)
    base = real_tools()
    taken: set[str] = set()
    while len(taken) < count:
        first, second, third = chance.choice(base), chance.choice(base), chance.choice(base)
        head, tail = _PART.findall(first["name"]), _PART.findall(second["name"])
        name = "_".join([*head[:1], *tail[-2:]]).lower() or "tool"
        if name in taken:
            name = f"{name}_{'_'.join(_PART.findall(third['name'])[-1:]).lower()}"
        if name in taken:
            name = f"{name}_{len(taken)}"
        taken.add(name)
        yield {
            "name": name,
            "description": _text(chance, first, second),
            "parameters": _parameters(chance, first, third),
            "server": f"server{chance.randrange(max(3, count // 40))}",
        }


def tools(count: int, *, seed: int = 7) -> list[Tool]:
    """The same as tools."""
    return [
        Tool(
            name=r["name"],
            description=r["description"],
            parameters=Schema.of(r["parameters"]),
            server=r["server"],
        )
        for r in recombined(count, seed=seed)
    ]


def _text(chance: random.Random, first: dict[str, Any], second: dict[str, Any]) -> str:
    mine = _SENTENCE.split((first.get("description") or "")[:600])
    theirs = _SENTENCE.split((second.get("description") or "")[:600])
    return " ".join([mine[0], *mine[1:2], chance.choice(theirs)]).strip()


def _parameters(
    chance: random.Random, first: dict[str, Any], third: dict[str, Any]
) -> dict[str, Any]:
    mine = (first.get("parameters") or {}).get("properties") or {}
    theirs = (third.get("parameters") or {}).get("properties") or {}
    kept = dict(list(mine.items())[:6])
    kept |= dict(chance.sample(sorted(theirs.items(), key=str), min(2, len(theirs))))
    return {"type": "object", "properties": kept, "required": list(kept)[:2]}


if __name__ == "__main__":
    if not available():
        sys.exit(f"The public sets are not at {DATA}: set TOOLSCOUT_DATA to their folder.")
    for row in recombined(int(sys.argv[1])):
        print(json.dumps(row, ensure_ascii=False))
