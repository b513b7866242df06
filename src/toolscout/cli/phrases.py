"""`toolscout catalog phrases`: list, add and remove phrases and aliases in the overlay file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ..catalog.catalog import Catalog
from ..catalog.overlay import Overlay, OverlayEntry, ToolKey, tool_key
from ..catalog.overlay_parser import LISTS
from ..catalog.tool import Tool
from ..errors import ConfigError, UnknownToolError
from ..evals.phrase_preview import QueryRank, RankChange, preview_ranks
from ..program import command_line
from ..toolbox.live_overlay import read_overlay
from ..toolbox.overlay_file import add_to_overlay, edit_overlay
from .catalog_options import (
    catalog_option,
    embedder_options,
    find_overlay_file,
    load_and_warn,
    load_with_held,
    nearest_names,
    open_engine,
    warn_about,
)
from .config_options import overlay_option, servers_option
from .output import Decorated, json_option, print_json, print_line, print_note, print_table

Additions = Mapping[str, tuple[str, ...]]
"""The texts of a command by the list they belong to."""


@click.group(name="phrases")
def command() -> None:
    """List, add and remove phrases and aliases of tools, in an overlay file.

    A phrase is a request that the tool answers. An alias is another name of the tool.
    """


def _alias_option(function: Decorated) -> Decorated:
    return click.option(
        "--alias", "aliases", multiple=True, metavar="NAME", help="An alias; may be repeated."
    )(function)


@command.command(name="list")
@overlay_option
@catalog_option
@json_option
def list_phrases(*, overlay: Path | None, paths: tuple[Path, ...], is_json: bool) -> None:
    """List all phrases and aliases, and warn of entries that fit no tool."""
    found = read_overlay(_require_file(overlay, paths, None))
    catalog = load_and_warn(paths)
    warn_about(found.find_problems(catalog))
    known = {tool_key(tool) for tool in catalog}
    if is_json:
        print_json([_to_dict(key, found, is_known=key in known) for key in found.entries])
        return
    rows = [
        (server, tool, name.removesuffix("es") if name == "aliases" else "phrase", text)
        for (server, tool), entry in found.entries.items()
        for name in LISTS
        for text in getattr(entry, name)
    ]
    print_table(("server", "tool", "kind", "text"), rows)


@command.command(name="add")
@click.argument("name")
@click.argument("phrases", nargs=-1)
@_alias_option
@click.option(
    "--preview", "is_preview", is_flag=True, help="Only show the rank that the tool would have."
)
@click.option(
    "--query",
    "queries",
    multiple=True,
    metavar="TEXT",
    help="With --preview: a request to rank for; may be repeated.  [default: the new phrases]",
)
@overlay_option
@catalog_option
@servers_option
@embedder_options
@json_option
def add_phrases(
    *,
    name: str,
    phrases: tuple[str, ...],
    aliases: tuple[str, ...],
    is_preview: bool,
    queries: tuple[str, ...],
    overlay: Path | None,
    paths: tuple[Path, ...],
    path: Path | None,
    embedder: str,
    no_cache: bool,
    is_json: bool,
) -> None:
    """Add PHRASES and aliases to the tool NAME; the file is created if needed."""
    if not (phrases or aliases):
        raise click.UsageError("Give at least one phrase, or an --alias.")
    file = _require_file(overlay, paths, path)
    catalog = load_with_held(paths, path)[0]
    tool = _find_tool(catalog, name)
    key = tool_key(tool)
    after = add_to_overlay(file, key, phrases=phrases, aliases=aliases, is_saved=not is_preview)
    warn_about([p for p in after.find_problems(catalog) if p.where.endswith(f", {'.'.join(key)}")])
    if is_preview:
        asked = queries or (*phrases, *aliases)
        before = read_overlay(file) if file.exists() else Overlay()
        catalog = catalog.with_changed_tools(before.apply)
        with open_engine(catalog, embedder=embedder, no_cache=no_cache) as engine:
            _print_ranks(preview_ranks(engine, tool.name, after, asked), is_json=is_json)
        return
    _report(file, key, after, is_json=is_json)


@command.command(name="remove")
@click.argument("name")
@click.argument("phrases", nargs=-1)
@_alias_option
@overlay_option
@json_option
def remove_phrases(
    *,
    name: str,
    phrases: tuple[str, ...],
    aliases: tuple[str, ...],
    overlay: Path | None,
    is_json: bool,
) -> None:
    """Remove PHRASES and aliases of the tool NAME, or all of them if none are given."""
    path = _require_file(overlay, (), None)
    key = _find_entry(read_overlay(path), name)
    gone: Additions = {"phrases": phrases, "aliases": aliases}
    is_all = not (phrases or aliases)

    def keep(entry: OverlayEntry, kind: str) -> tuple[str, ...]:
        texts: tuple[str, ...] = getattr(entry, kind)
        if absent := [text for text in gone[kind] if text not in texts]:
            raise ConfigError(
                f"{'.'.join(key)} has no {absent[0]!r} in its {kind}.",
                hint=f"List them with: {command_line('catalog', 'phrases', 'list')}",
            )
        return () if is_all else tuple(text for text in texts if text not in gone[kind])

    _report(path, key, edit_overlay(path, key, keep), is_json=is_json)


def _require_file(overlay: Path | None, paths: Sequence[Path], config: Path | None) -> Path:
    path = find_overlay_file(overlay, is_own=not paths, config=config)
    if path is None:
        raise ConfigError(
            "There is no overlay file yet.",
            hint="Name one with --overlay FILE, or with the setting overlay.",
        )
    return path


def _find_tool(catalog: Catalog, name: str) -> Tool:
    names = catalog.resolve(name)
    if len(names) == 1:
        return catalog[names[0]]
    if names:
        raise UnknownToolError(
            f"{name!r} is ambiguous.", hint=f"Use one of these names: {', '.join(names)}."
        )
    near = nearest_names(catalog, name)
    listing = f"List all: {command_line('catalog', 'list')}"
    hint = f"Similar names: {', '.join(near)}." if near else listing
    raise UnknownToolError(f"No tool is named {name!r}.", hint=hint)


def _find_entry(overlay: Overlay, name: str) -> ToolKey:
    """The entry of a tool, which may be gone from the catalog: `tool` or `server.tool`."""
    keys = [
        key
        for key in overlay.entries
        if name in (key[1], ".".join(key), "__".join(key), ":".join(key))
    ]
    if len(keys) == 1:
        return keys[0]
    found = ", ".join(".".join(key) for key in keys or overlay.entries) or "none"
    raise UnknownToolError(
        f"The overlay has {'several entries' if keys else 'no entry'} for {name!r}.",
        hint=f"Name one of its entries: {found}.",
    )


def _print_ranks(changes: Sequence[RankChange], *, is_json: bool) -> None:
    if is_json:
        print_json(
            [
                {"query": c.query, "before": _rank_dict(c.before), "after": _rank_dict(c.after)}
                for c in changes
            ]
        )
        return
    rows = [(c.query, *_rank_cells(c.before), *_rank_cells(c.after)) for c in changes]
    print_table(("query", "rank now", "confidence", "rank with it", "confidence"), rows)
    print_note("Nothing was saved.")


def _rank_dict(found: QueryRank) -> dict[str, Any]:
    rank = found.rank
    return {"rank": rank.rank, "tools": rank.tools, "confidence": round(found.confidence, 4)}


def _rank_cells(found: QueryRank) -> tuple[str, str]:
    rank = found.rank
    place = "not ranked" if rank.rank is None else f"{rank.rank} of {rank.tools}"
    return place, f"{found.confidence:.2f}"


def _to_dict(key: ToolKey, overlay: Overlay, *, is_known: bool) -> dict[str, Any]:
    entry = overlay.entries.get(key, OverlayEntry())
    row = {"server": key[0], "tool": key[1]}
    return {
        **row,
        "phrases": [*entry.phrases],
        "aliases": [*entry.aliases],
        "is_known": is_known,
    }


def _report(path: Path, key: ToolKey, overlay: Overlay, *, is_json: bool) -> None:
    entry = overlay.entries.get(key, OverlayEntry())
    if is_json:
        lists = {kind: [*getattr(entry, kind)] for kind in LISTS}
        print_json({"file": str(path), "server": key[0], "tool": key[1], **lists})
        return
    counts = [_count(len(entry.phrases), "phrase", "s"), _count(len(entry.aliases), "alias", "es")]
    print_line(f"{'.'.join(key)}: {', '.join(counts)} in {path}")


def _count(number: int, word: str, plural: str) -> str:
    return f"{number} {word}{'' if number == 1 else plural}"
