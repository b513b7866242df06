"""`toolscout learn`: show, reset, export and seed what search has learned from calls."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..config import Config
from ..errors import ConfigError
from ..program import command_line
from ..store.factory import has_log, log_path, open_log
from .catalog_options import catalog_option, load_with_held, open_engine
from .journal_output import open_output
from .output import json_option, print_json, print_line, print_note, print_table, warn
from .pins import config_option
from .progress import progress

if TYPE_CHECKING:
    from ..learning.buffer import ReplayBuffer
    from ..learning.observation import Observation
    from ..learning.seeding import Seeds
    from ..learning.summary import LearnedTool, LearningSummary
    from ..search.engine import Engine
    from ..store.log_contract import LogRow

_MAX_TOOLS_SHOWN = 20
_MAX_PROBLEMS_SHOWN = 10
_PAGE_ROWS = 1_000
_UNUSABLE = "Nothing of what was learned before can be used; the warnings say why."
_NOTHING = "Nothing was learned yet. Calls after searches are learned unless learning is off."


@click.group(name="learn")
def command() -> None:
    """Show, reset, export and seed what search has learned from calls."""


def _read_config(path: Path | None) -> Config:
    # Only TOML has a [settings] table, and so a `home`.
    return Config.read(path if path is not None and path.suffix == ".toml" else None)


@contextmanager
def _open_buffer(config: Config) -> Generator[ReplayBuffer]:
    """The learned state of the configured store and model."""
    from ..embedders import load_embedders
    from ..toolbox.learning_settings import open_replay_buffer

    embedders = load_embedders(config.embedder)
    if not embedders:
        raise ConfigError(
            "Learning compares requests by their vectors, and embedder is none.",
            hint="Set embedder to use, the bundled one.",
        )
    with open_replay_buffer(config, embedders[0]) as buffer:
        yield buffer


@command.command(name="status")
@config_option
@json_option
def show_status(*, path: Path | None, is_json: bool) -> None:
    """Show what was learned, for which tools, and the figures of shadow mode."""
    from ..learning.summary import summarise
    from ..learning.training import train

    config = _read_config(path)
    with _open_buffer(config) as buffer:
        rows = buffer.read()
        counts = buffer.counts()
        found = summarise(rows, train(rows), counts, problems=buffer.problems.values())
    if is_json:
        print_json(_render_status(config, found))
        return
    print_line(
        f"learning: {config.learning}, {found.observations} observations of"
        f" {found.principals} principals, {len(found.tools)} tools"
    )
    if found.tools:
        columns = ("tool", "observations", "principals", "last used", "lift")
        print_table(columns, [_tool_row(tool) for tool in found.tools[:_MAX_TOOLS_SHOWN]])
    else:
        print_note(_UNUSABLE if found.problems else _NOTHING)
    if found.shadow.calls:
        columns = ("shadow mode", *(f"recall@{depth}" for depth in found.shadow.without))
        rows_of = {"without": found.shadow.without, "with past use": found.shadow.learned}
        print_table(
            columns, [(n, *(f"{r:.3f}" for r in row.values())) for n, row in rows_of.items()]
        )
        print_note(f"Of {found.shadow.calls} calls after a search, without and with past use.")
    for problem in found.problems:
        warn(problem)


def _render_status(config: Config, found: LearningSummary) -> dict[str, Any]:
    shadow = found.shadow
    orders = {"base": shadow.without, "learned": shadow.learned}
    return {
        "learning": config.learning,
        "observations": found.observations,
        "principals": found.principals,
        "tools": {tool.name: tool.observations for tool in found.tools},
        "learned": [asdict(tool) for tool in found.tools],
        "shadow": {
            "calls": shadow.calls,
            **{f"{n}_recall_at_{d}": r for n, row in orders.items() for d, r in row.items()},
        },
        "problems": [*found.problems],
    }


def _tool_row(tool: LearnedTool) -> tuple[str, ...]:
    last_used = f"{datetime.fromtimestamp(tool.last_used).astimezone():%Y-%m-%d %H:%M}"
    counts = (str(tool.observations), str(tool.principals))
    return (tool.name, *counts, last_used, f"{tool.lift:.2f}")


@command.command(name="reset")
@click.argument("tools", nargs=-1)
@click.option("--principal", help="Erase one principal: its observations, and what they taught.")
@click.option("--all", "is_all", is_flag=True, help="Forget everything, shadow figures too.")
@config_option
@json_option
def reset_state(
    *, tools: tuple[str, ...], principal: str | None, is_all: bool, path: Path | None, is_json: bool
) -> None:
    """Forget TOOLS, a principal, or everything; running gateways follow within seconds."""
    from ..learning.observation import hash_principal

    if [bool(tools), principal is not None, is_all].count(True) != 1:
        raise ConfigError(
            "Nothing was reset: it is not clear what to forget.",
            hint="Name tools, or give --principal NAME, or --all.",
        )
    with _open_buffer(_read_config(path)) as buffer:
        if is_all:
            removed = buffer.clear()
        elif principal is not None:
            gone = hash_principal(principal)
            removed = buffer.remove(lambda row: None if row.principal == gone else row)
        else:
            _check_names(tools, buffer.read())
            removed = sum(buffer.remove(lambda row, n=name: row.without_tool(n)) for name in tools)
    if is_json:
        print_json({"removed": removed})
    else:
        print_line(f"Forgotten: {removed} observations.")


def _check_names(names: Iterable[str], rows: Iterable[Observation]) -> None:
    known = {name for row in rows for name in row.called.values()}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 3)
            meant = f"Did you mean {', '.join(near)}?" if near else ""
            raise ConfigError(
                f"Nothing was learned for {name!r}.",
                hint=meant or f"See the tools: {command_line('learn', 'status')}",
            )


@command.command(name="export")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write to this file, which only you can read.")  # fmt: skip
@config_option
@json_option
def export_state(*, output: Path | None, path: Path | None, is_json: bool) -> None:
    """Write the observations as JSON Lines: vectors, tools and hashes, and no text."""
    with _open_buffer(_read_config(path)) as buffer, open_output(output) as file:
        rows = buffer.read()
        for row in rows:
            file.write(json.dumps({"model": buffer.model, **row.to_json()}) + "\n")
    if output is not None and is_json:
        print_json({"file": str(output), "observations": len(rows)})
    elif output is not None:
        print_line(f"{len(rows)} observations written to {output}.")


@command.command(name="import")
@click.argument(
    "file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@click.option("--journal", "is_journal", is_flag=True, help="Learn from the journal.")
@click.option(
    "--any-model", is_flag=True, help="Also journal rows that do not name the model of vectors."
)
@catalog_option
@config_option
@json_option
def import_state(
    *,
    file: Path | None,
    is_journal: bool,
    any_model: bool,
    paths: tuple[Path, ...],
    path: Path | None,
    is_json: bool,
) -> None:
    """Learn from FILE or from the journal.

    FILE has lines of {"request": "…", "called": ["tool", …]}, or is an export. The tools are those
    of --catalog, or else of the servers of --config or of your own list, as they were last listed.
    """
    if (file is None) != is_journal:
        raise ConfigError("Nothing was imported.", hint="Name one FILE, or give --journal.")
    config = _read_config(path)
    catalog, _ = load_with_held(paths, path)
    with (
        _open_buffer(config) as buffer,
        open_engine(catalog, embedder=config.embedder, no_cache=False) as engine,
        progress("Learning"),
    ):
        seeds = _read_seeds(file, config, engine, any_model=any_model)
        known = {row.id for row in buffer.read()}
        new = [row for id_, row in {r.id: r for r in seeds.rows}.items() if id_ not in known]
        buffer.append(new)
    for problem in seeds.problems[:_MAX_PROBLEMS_SHOWN]:
        warn(problem)
    if len(seeds.problems) > _MAX_PROBLEMS_SHOWN:
        warn(f"… and {len(seeds.problems) - _MAX_PROBLEMS_SHOWN} more like these.")
    if is_json:
        print_json({"observations": len(new), "problems": seeds.problems})
    else:
        print_line(f"Learned from {len(new)} observations.")
    if not new and seeds.problems:
        sys.exit(1)


def _read_seeds(file: Path | None, config: Config, engine: Engine, *, any_model: bool) -> Seeds:
    from ..learning.seeding import read_journal, read_lines

    if file is not None:
        with file.open(encoding="utf-8", errors="replace") as lines:
            return read_lines(lines, engine)
    return read_journal(_journal_rows(config), engine, accepts_unnamed=any_model)


def _journal_rows(config: Config) -> Iterable[LogRow]:
    from ..store.log_contract import LogFilter

    if not has_log(config):
        raise ConfigError(
            f"There is no journal at {log_path(config)}.",
            hint="The first search or call creates it, unless record is off.",
        )
    log = open_log(config)
    try:
        last = 0
        while rows := log.read(LogFilter(after=last), limit=_PAGE_ROWS, is_newest_first=False):
            yield from rows
            last = rows[-1].sequence
    finally:
        log.close()
