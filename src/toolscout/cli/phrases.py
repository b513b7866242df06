"""`toolscout catalog phrases`: list, add and remove phrases and aliases in the overlay file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ..catalog.catalog import Catalog
from ..catalog.overlay import Overlay, OverlayEntry, ToolKey, tool_key
from ..catalog.overlay_parser import LISTS, is_json_lines, parse_overlay, set_row_list
from ..errors import ConfigError, UnknownToolError
from ..program import command_line
from ..store.user_files import lock_config_file, write_atomically
from ..toml_edit import TOMLEditError, set_toml_list
from ..toolbox.live_overlay import read_overlay
from .catalog_options import (
    catalog_option,
    find_overlay_file,
    load_and_warn,
    nearest_names,
    warn_about,
)
from .config_options import overlay_option
from .output import Decorated, json_option, print_json, print_line, print_table

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
    found = read_overlay(_require_file(overlay, paths))
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
@overlay_option
@catalog_option
@json_option
def add_phrases(
    *,
    name: str,
    phrases: tuple[str, ...],
    aliases: tuple[str, ...],
    overlay: Path | None,
    paths: tuple[Path, ...],
    is_json: bool,
) -> None:
    """Add PHRASES and aliases to the tool NAME; the file is created if needed."""
    if not (phrases or aliases):
        raise click.UsageError("Give at least one phrase, or an --alias.")
    path = _require_file(overlay, paths)
    catalog = load_and_warn(paths)
    key = _find_tool(catalog, name)
    new = {"phrases": phrases, "aliases": aliases}
    after = _edit_entry(path, key, lambda entry, kind: (*getattr(entry, kind), *new[kind]))
    warn_about([p for p in after.find_problems(catalog) if p.where.endswith(f", {'.'.join(key)}")])
    _report(path, key, after, is_json=is_json)


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
    path = _require_file(overlay, ())
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

    _report(path, key, _edit_entry(path, key, keep), is_json=is_json)


def _require_file(overlay: Path | None, paths: Sequence[Path]) -> Path:
    path = find_overlay_file(overlay, is_own=not paths)
    if path is None:
        raise ConfigError(
            "There is no overlay file yet.",
            hint="Name one with --overlay FILE, or with the setting overlay.",
        )
    return path


def _find_tool(catalog: Catalog, name: str) -> ToolKey:
    names = catalog.resolve(name)
    if len(names) == 1:
        return tool_key(catalog[names[0]])
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


def _edit_entry(
    path: Path, key: ToolKey, change: Callable[[OverlayEntry, str], tuple[str, ...]]
) -> Overlay:
    """Change the lists of one tool in the file; comments and other entries stay."""
    with lock_config_file(path):
        before = read_overlay(path) if path.exists() else Overlay()
        text = before.text
        entry = before.entries.get(key, OverlayEntry())
        for kind in LISTS:
            items = tuple(dict.fromkeys(change(entry, kind)))
            if items != getattr(entry, kind):
                text = _set_list(path, text, key, kind, items)
        after = parse_overlay(text, file=str(path))
        if text != before.text:
            write_atomically(path, text)
    return after


def _set_list(path: Path, text: str, key: ToolKey, kind: str, items: Sequence[str]) -> str:
    if is_json_lines(str(path)):
        return set_row_list(text, key, kind, items)
    try:
        return set_toml_list(text, key, kind, items)
    except TOMLEditError as error:
        raise ConfigError(
            f"{path} has a layout that cannot be edited automatically.",
            hint="Edit it by hand, with one table for each tool: [server.tool].",
        ) from error


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
