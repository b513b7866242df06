"""Options and helpers of commands that load a catalog and search it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rapidfuzz import fuzz, process

from .. import embedders
from ..catalog.catalog import Catalog
from ..catalog.filters import CUSTOM, Filter, describe_unknown_owner
from ..catalog.problem import Problem
from ..catalog.tool import Tool, normalise_name
from ..config import Config
from ..embedders.shared_cache import open_vectors
from ..errors import ConfigError, MissingExtraError
from ..examples import CATALOG
from ..folders import user_servers_file
from ..program import command_line
from ..search.engine import Engine
from ..sources.files import read_tools
from ..sources.server_status import UP_STATUSES
from ..toolbox.live_overlay import read_overlay
from .config_options import config_words
from .output import Decorated, count_noun, warn
from .progress import progress

if TYPE_CHECKING:
    from ..gateway.upstream.held_tools import HeldTools

_MAX_WARNINGS = 10

PATH = click.Path(exists=True, path_type=Path)


class CatalogPath(click.Path):
    """A file or folder; `example` stands for the embedded catalog."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a path."""
        is_example = value == "example" and not Path("example").exists()
        return CATALOG if is_example else super().convert(value, param, ctx)


def catalog_option(function: Decorated) -> Decorated:
    """`--catalog`: the files with tools; the embedded example by default."""
    return click.option(
        "--catalog",
        "-c",
        "paths",
        type=CatalogPath(exists=True, path_type=Path),
        multiple=True,
        metavar="FILE",
        help="File or folder of tools (JSON Lines, JSON, YAML), or `example`; may be repeated."
        "  [default: the tools of your servers, or else the embedded example]",
    )(function)


def embedder_options(function: Decorated) -> Decorated:
    """`--embedder` and `--no-cache`: where vectors come from, and whether they are cached."""
    function = click.option(
        "--embedder",
        default="use",
        show_default=True,
        envvar="TOOLSCOUT_EMBEDDER",
        metavar="SPEC",
        help=f"The embedder: {embedders.KINDS}; join several with +.",
        shell_complete=_complete_embedder,
    )(function)
    return click.option(
        "--no-cache", is_flag=True, help="Compute all vectors again, and do not cache them."
    )(function)


def _complete_embedder(_context: click.Context, _option: click.Parameter, typed: str) -> list[str]:
    return [kind for kind in ("none", "use", "onnx:", "openai:") if kind.startswith(typed)]


@dataclass(frozen=True, slots=True)
class LoadedCatalog:
    """A catalog read from files, and the problems found in them."""

    catalog: Catalog
    problems: tuple[Problem, ...]


def load_catalog(paths: Sequence[Path]) -> LoadedCatalog:
    """Read every file as a separate source, so that equal tool names do not collide."""
    catalog = Catalog()
    problems: list[Problem] = []
    for path in paths or (CATALOG,):
        read = read_tools(path)
        problems += read.problems
        # A stem reads better; several files may have the same stem, but not the same path.
        catalog = catalog.with_source(path.stem if len(paths) < 2 else str(path), read.tools)
    return LoadedCatalog(catalog, tuple(problems))


def load_and_warn(paths: Sequence[Path]) -> Catalog:
    """Read files, or else the tools of the user's servers, and print problems to stderr."""
    return load_with_held(paths)[0]


def load_with_held(
    paths: Sequence[Path], config: Path | None = None
) -> tuple[Catalog, HeldTools | None]:
    """The tools to search, and those of the servers that are held for approval.

    Without paths, the servers are those of `config`, or else of the user's own list.
    """
    with progress("Reading tools"):
        if not paths and (own := load_server_tools(config)):
            return own
        if config is not None:
            raise ConfigError(
                f"No tools of {config} are known yet.",
                hint=f"List them first: {command_line('check', *config_words(config))}.",
            )
        loaded = load_catalog(paths)
    warn_about(loaded.problems)
    return loaded.catalog, None


def load_server_tools(config: Path | None = None) -> tuple[Catalog, HeldTools] | None:
    """The tools of servers, the user's own by default, as last listed; None if none are known."""
    file = config or user_servers_file()
    if not file.is_file():
        return None
    try:
        from ..gateway.operations.known_servers import collect_held_tools, read_known_servers
        from ..gateway.setup import Setup
    except MissingExtraError:  # without MCP there are no servers to search
        return None

    servers = [s for s in read_known_servers(Setup.read(file)) if s.is_enabled]
    tools = [tool for server in servers for tool in server.available]
    down = [s for s in servers if s.tools is None and s.status not in UP_STATUSES]
    if down:
        names = ", ".join(f"{s.name} ({s.status})" for s in down)
        warn(f"Not searched: {names}. See why: {command_line('list', *config_words(config))}")
    if unlisted := [s.name for s in servers if s.tools is None and s not in down]:
        check = command_line("check", *config_words(config))
        warn(f"Not listed yet: {', '.join(unlisted)}. Run {check} first.")
    held = collect_held_tools(servers)
    if not tools and not held.catalog:
        return None
    count = count_noun(len(tools), "tool")
    warn(f"Using the {count} of {file}; --catalog example uses the example.")
    return Catalog(tools), held


def find_overlay_file(
    overlay: Path | None, *, is_own: bool, config: Path | None = None
) -> Path | None:
    """The file given with `--overlay`, else that of the settings or of the servers."""
    if overlay is not None or (overlay := Config.read().overlay) is not None or not is_own:
        return overlay
    file = config or user_servers_file()
    if not file.is_file():
        return None
    try:
        from ..gateway.setup import Setup
    except MissingExtraError:
        return None
    return Setup.read(file).toolbox_config.overlay


def add_overlay(
    catalog: Catalog, overlay: Path | None, *, is_own: bool, config: Path | None = None
) -> Catalog:
    """The catalog with phrases and aliases; without `--overlay`, a bad file is a warning."""
    path = find_overlay_file(overlay, is_own=is_own, config=config)
    if path is None:
        return catalog
    try:
        found = read_overlay(path)
    except ConfigError as error:
        if overlay is not None:
            raise
        warn(str(error))
        return catalog
    # An overlay of the settings may be meant for another catalog.
    if overlay is not None:
        warn_about(found.find_problems(catalog))
    return catalog.with_changed_tools(found.apply)


def warn_about(problems: Sequence[Problem]) -> None:
    """Print the first problems to stderr."""
    for problem in problems[:_MAX_WARNINGS]:
        warn(str(problem))
    if len(problems) > _MAX_WARNINGS:
        warn(f"… and {len(problems) - _MAX_WARNINGS} more like these.")


@contextmanager
def open_engine(
    catalog: Catalog, *, embedder: str, no_cache: bool, cut: float = 0.0
) -> Generator[Engine]:
    """An engine with all its vectors computed."""
    with progress("Building the index") as report:
        loaded = embedders.load_embedders(embedder)
        cache = None
        if loaded and not no_cache:
            cache = open_vectors(Config.read())
        engine = Engine(catalog, embedders=loaded, cache=cache, min_confidence=cut)
        report("Loading semantic search", 0, 0)
        with _closing_on_error(engine):
            status = engine.fill(lambda done, total: report("Computing vectors", done, total))
    try:
        if status.problem:
            warn(f"Keyword search only: {status.problem}")
        yield engine
    finally:
        engine.close()


@contextmanager
def _closing_on_error(engine: Engine) -> Generator[None]:
    """Close the engine if the block is left early, such as by Ctrl-C."""
    try:
        yield
    except BaseException:
        engine.close()
        raise


def tool_filter(
    catalog: Catalog, servers: Sequence[str], tools: Sequence[str]
) -> Callable[[Tool], bool] | None:
    """The predicate of `--server` and `--tool`; a bare tool name means it on any server."""
    if not servers and not tools:
        return None
    entries = [entry for tool in tools for entry in _filter_entries(catalog, tool)]
    chosen = Filter(servers=tuple(servers), tools=tuple(entries))
    warn_about(chosen.warnings)
    unknown = set(chosen.unmatched_names(catalog))
    known = dict.fromkeys(tool.server for tool in catalog if tool.server)
    for name in (server for server in servers if server in unknown):
        warn(describe_unknown_owner(name, known))
    for tool in tools:
        if unknown.issuperset(_filter_entries(catalog, tool)):
            near = ", ".join(nearest_names(catalog, tool.rpartition(":")[2]))
            warn(f"No tool is named {tool!r}.{f' Near: {near}.' if near else ''}")
    return chosen.allows


def _filter_entries(catalog: Catalog, tool: str) -> list[str]:
    if ":" in tool:
        return [tool]
    matches = [catalog[name] for name in catalog.resolve(tool)]
    entries = [f"{t.server or t.category or CUSTOM}:{t.local_name}" for t in matches]
    # An entry without a match selects nothing, as it should.
    return entries or [f"{CUSTOM}:{tool}"]


_MAX_NEAREST = 5
_MIN_SIMILARITY = 60  # of 100, by rapidfuzz


def nearest_names(catalog: Catalog, name: str) -> list[str]:
    """The tool names most similar to an unknown name, best first."""
    candidates = {known: normalise_name(known) for known in catalog.tools}
    matches = process.extract(
        normalise_name(name),
        candidates,
        scorer=fuzz.WRatio,
        limit=_MAX_NEAREST,
        score_cutoff=_MIN_SIMILARITY,
    )
    return [known for _, _, known in matches]
