"""`toolscout catalog lint`: the tools that need a phrase to be found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..evals.self_retrieval import MissedTool, find_missed_tools
from ..program import command_line
from .catalog_options import (
    add_overlay,
    catalog_option,
    embedder_options,
    load_with_held,
    open_engine,
    tool_filter,
)
from .config_options import overlay_option, servers_option
from .output import json_option, print_json, print_line, print_table
from .progress import progress

EXIT_MISSED = 1


@click.command(name="lint")
@catalog_option
@servers_option
@overlay_option
@click.option("--server", "servers", multiple=True, help="Only tools of this server.")
@embedder_options
@json_option
def command(
    *,
    paths: tuple[Path, ...],
    path: Path | None,
    overlay: Path | None,
    servers: tuple[str, ...],
    embedder: str,
    no_cache: bool,
    is_json: bool,
) -> int:
    """List the tools that a search for their own description does not find first.

    The query is the first sentence of the description, without the words of the tool's name. A
    tool that one of its phrases finds first is not listed. Exit codes: 0 every tool is found, 1
    some are not, 2 usage.
    """
    if path is not None and paths:
        raise click.UsageError("Give either --config or --catalog, not both.")
    catalog, _ = load_with_held(paths, path)
    catalog = add_overlay(catalog, overlay, is_own=not paths, config=path)
    is_chosen = tool_filter(catalog, servers, ())
    tools = [tool for tool in catalog if is_chosen is None or is_chosen(tool)]
    with (
        open_engine(catalog, embedder=embedder, no_cache=no_cache) as engine,
        progress("Searching for every tool") as report,
    ):
        missed = [
            *find_missed_tools(
                engine,
                tools,
                progress=lambda done, total: report("Searching for every tool", done, total),
            )
        ]
    if is_json:
        print_json({"tools": len(tools), "missed": [_to_dict(row) for row in missed]})
    else:
        _print_missed(missed, len(tools))
    return EXIT_MISSED if missed else 0


def _to_dict(row: MissedTool) -> dict[str, Any]:
    return {
        "tool": row.tool.name,
        "server": row.tool.server,
        "query": row.query,
        "rank": row.rank,
        "outranked_by": row.outranked_by,
    }


def _print_missed(missed: list[MissedTool], total: int) -> None:
    if missed:
        rows = [(m.tool.name, _describe_rank(m), m.outranked_by or "–", m.query) for m in missed]
        print_table(("tool", "rank", "first", "query"), rows)
        print_line(
            "Add a request that only this tool answers:"
            f' {command_line("catalog", "phrases", "add", missed[0].tool.name)} "..."'
        )
    print_line(f"{total} tools, {len(missed)} not found first by their own description.")


def _describe_rank(row: MissedTool) -> str:
    if not row.query:
        return "no words beyond the name"
    return str(row.rank) if row.rank else "not found"
