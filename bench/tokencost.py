"""What tools cost in the context: everything loaded against each profile, and a single lookup."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from toolscout import embedders
from toolscout.catalog.catalog import Catalog
from toolscout.catalog.tool import Tool
from toolscout.disclosure.profiles import DEFAULT, EVERYTHING, get_profile, profile_names
from toolscout.embedders.cache import VectorCache
from toolscout.evals.costs import CostEstimator
from toolscout.search.engine import Engine
from toolscout.sources.files import read_tools
from toolscout.tokens import default_counter

from .catalogs import DATA
from .lookup import SHAPES
from .lookup import measure as looked_up
from .progress import Progress
from .sets import CATALOGS, LabelledSet
from .work import FOLDER

SIZES = (10, 30, 100, 300, 1_000, 3_000)
"""How many tools of the largest real catalog the curve is drawn through."""


def measure(*, is_quick: bool, progress: Progress) -> dict[str, Any]:
    """Everything loaded and each profile on the real catalogs; the default as a catalog grows."""
    rows: list[dict[str, Any]] = []
    for name in CATALOGS[:2] if is_quick else CATALOGS:
        progress.say(f"tokens · {name}")
        tools = _tools(DATA / name / "tools.jsonl")
        found = _costs(tools, [n for n in profile_names() if n != EVERYTHING.name])
        rows.append({"catalog": name, "tools": len(tools), **found})
    tools = _tools(DATA / CATALOGS[-1] / "tools.jsonl")
    curve: list[dict[str, Any]] = []
    for size in SIZES if is_quick else (*SIZES, len(tools)):
        progress.say(f"tokens · {size:,} tools")
        curve.append({"tools": size, **_costs(_spread(tools, size), [DEFAULT.name])})
    return {"counter": default_counter().name, "catalogs": rows, "curve": curve}


def lookups(chosen: LabelledSet, *, progress: Progress) -> dict[str, Any]:
    """Tokens until the right tool is callable, for each way to answer."""
    cache = VectorCache(FOLDER / "vectors.db")
    engine = Engine(chosen.catalog, embedders=embedders.load_embedders("use"), cache=cache)
    rows: list[dict[str, Any]] = []
    with closing(engine):
        engine.fill()
        for shape in SHAPES:
            progress.say(f"tokens · a lookup · {shape.label}")
            rows.append(looked_up(shape, engine, list(chosen.queries)))
        everything = CostEstimator(engine=engine, counter=default_counter()).full_catalog_tokens()
    return {"set": chosen.name, "everything": everything, "shapes": rows}


def _costs(tools: Sequence[Tool], chosen: Sequence[str]) -> dict[str, Any]:
    engine = Engine(Catalog(tools))
    with closing(engine):
        scale = CostEstimator(engine=engine, counter=default_counter())
        everything = scale.full_catalog_tokens()
        profiles: dict[str, Any] = {}
        for name in chosen:
            cost = scale.cost(get_profile(name))
            profiles[name] = {
                "start": cost.start,
                "after_1": cost.after_1,
                "after_5": cost.after_5,
                "saved": cost.savings(everything),
            }
    return {"everything": everything, "profiles": profiles}


def _tools(path: Path) -> tuple[Tool, ...]:
    return read_tools(path).tools


def _spread(tools: Sequence[Tool], count: int) -> list[Tool]:
    """Tools at even distances: a smaller catalog of the same kind."""
    return [tools[place * len(tools) // count] for place in range(count)]
