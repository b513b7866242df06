"""Edit the overlay file: one tool at a time, and comments and other entries stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..catalog.overlay import Overlay, OverlayEntry, ToolKey
from ..catalog.overlay_parser import LISTS, is_json_lines, parse_overlay, set_row_list
from ..errors import ConfigError
from ..store.user_files import lock_config_file, write_atomically
from ..toml_edit import TOMLEditError, set_toml_list
from .live_overlay import read_overlay


def edit_overlay(
    path: Path,
    key: ToolKey,
    change: Callable[[OverlayEntry, str], tuple[str, ...]],
    *,
    is_saved: bool = True,
) -> Overlay:
    """Change the lists of one tool in a file, which is created if needed; returns all entries.

    Without `is_saved`, the file does not change.
    """
    with lock_config_file(path):
        before = read_overlay(path) if path.exists() else Overlay()
        text = before.text
        entry = before.entries.get(key, OverlayEntry())
        for kind in LISTS:
            items = tuple(dict.fromkeys(change(entry, kind)))
            if items != getattr(entry, kind):
                text = _set_list(path, text, key, kind, items)
        after = parse_overlay(text, file=str(path))
        if is_saved and text != before.text:
            write_atomically(path, text)
    return after


def add_to_overlay(
    path: Path,
    key: ToolKey,
    *,
    phrases: Sequence[str] = (),
    aliases: Sequence[str] = (),
    is_saved: bool = True,
) -> Overlay:
    """Add phrases and aliases to a tool."""
    new = {"phrases": phrases, "aliases": aliases}
    return edit_overlay(
        path, key, lambda entry, kind: (*getattr(entry, kind), *new[kind]), is_saved=is_saved
    )


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
