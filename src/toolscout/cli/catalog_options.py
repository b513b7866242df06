"""From the files a command names to a catalog and an engine over it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from rapidfuzz import fuzz, process

from ..catalog.catalog import Catalog
from ..catalog.filters import CUSTOM, Filter
from ..catalog.names import normalise_name
from ..catalog.problem import Problem
from ..catalog.tool import Tool
from ..config import Config
from ..examples import CATALOG
from ..search import embedders
from ..search.embedders.cache import VectorCache
from ..search.engine import Engine
from ..sources.files import read_tools
from .output import progress, warn

VECTORS = "vectors.db"
_MAX_WARNINGS = 10

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
PATH = click.Path(exists=True, path_type=Path)


def catalog_option(function: Decorated) -> Decorated:
    """`--catalog`: where the tools are; the embedded example if nothing is named."""
    return click.option(
        "--catalog",
        "-c",
        "paths",
        type=PATH,
        multiple=True,
        metavar="FILE",
        help="File or folder of tools (JSON Lines, JSON, YAML); may be repeated."
        "  [default: the embedded example]",
    )(function)


def embedder_options(function: Decorated) -> Decorated:
    """`--embedder` and `--no-cache`: where vectors come from, and whether they are kept."""
    function = click.option(
        "--embedder",
        default="use",
        show_default=True,
        envvar="TOOLSCOUT_EMBEDDER",
        metavar="SPEC",
        help=f"Where vectors come from: {embedders.KINDS}; several are joined by +.",
        shell_complete=_complete_embedder,
    )(function)
    return click.option(
        "--no-cache", is_flag=True, help="Make all vectors anew, and keep none of them."
    )(function)


def _complete_embedder(_context: click.Context, _option: click.Parameter, typed: str) -> list[str]:
    return [kind for kind in ("none", "use", "onnx:", "openai:") if kind.startswith(typed)]


@dataclass(frozen=True, slots=True)
class LoadedCatalog:
    """A catalog as files gave it, and what is to be mended in them."""

    catalog: Catalog
    problems: tuple[Problem, ...]


def load_catalog(paths: Sequence[Path]) -> LoadedCatalog:
    """Read every file; each is a source of its own, so that equal names stay apart."""
    catalog = Catalog()
    problems: list[Problem] = []
    for path in paths or (CATALOG,):
        read = read_tools(path)
        problems += read.problems
        catalog = catalog.with_source(path.stem if len(paths) < 2 else str(path), read.tools)
    return LoadedCatalog(catalog, tuple(problems))


def load_and_warn(paths: Sequence[Path]) -> Catalog:
    """Read files, and tell beside the output what could not be read."""
    loaded = load_catalog(paths)
    warn_about(loaded.problems)
    return loaded.catalog


def warn_about(problems: Sequence[Problem]) -> None:
    """Tell the first few of what is to be mended."""
    for problem in problems[:_MAX_WARNINGS]:
        warn(str(problem))
    if len(problems) > _MAX_WARNINGS:
        warn(f"… and {len(problems) - _MAX_WARNINGS} more like these.")


@contextmanager
def open_engine(
    catalog: Catalog, *, embedder: str, no_cache: bool, cut: float = 0.0
) -> Generator[Engine]:
    """An engine with all its vectors in place."""
    found = embedders.load_embedders(embedder)
    cache = None
    if found and not no_cache:
        cache = VectorCache(Config.read().cache_folder / VECTORS)
    engine = Engine(catalog, embedders=found, cache=cache, cut=cut)
    try:
        with progress() as step:
            status = engine.fill(lambda done, total: step("vectors", done, total))
        if status.problem:
            warn(f"Searching by words alone: {status.problem}")
        yield engine
    finally:
        engine.close()


def tool_filter(
    catalog: Catalog, servers: Sequence[str], tools: Sequence[str]
) -> Callable[[Tool], bool] | None:
    """What `--server` and `--tool` let through; a bare tool name means it wherever it is."""
    if not servers and not tools:
        return None
    entries = [entry for tool in tools for entry in _filter_entries(catalog, tool)]
    chosen = Filter(servers=tuple(servers), tools=tuple(entries))
    warn_about(chosen.warnings)
    return chosen.allows


def _filter_entries(catalog: Catalog, tool: str) -> list[str]:
    if ":" in tool:
        return [tool]
    found = [catalog[name] for name in catalog.resolve(tool)]
    owned = [f"{t.server or t.category or CUSTOM}:{t.local_name}" for t in found]
    return owned or [tool]


_MOST = 5
_LEAST = 60


def nearest_names(catalog: Catalog, name: str) -> list[str]:
    """The names most like one that no tool has, best first."""
    spelled = {known: normalise_name(known) for known in catalog.tools}
    found = process.extract(
        normalise_name(name), spelled, scorer=fuzz.WRatio, limit=_MOST, score_cutoff=_LEAST
    )
    return [known for _, _, known in found]
