"""Read the text of an overlay file: TOML with a table per tool, or JSON Lines with a row each."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import PurePath
from typing import cast

from ..errors import ConfigError
from ..toml_edit import header_keys
from .filters import CUSTOM
from .overlay import Overlay, OverlayEntry, ToolKey
from .sanitization import NAME_CAP, PHRASES_CAP, clean_line

ALIASES_CAP = 20
"""How many aliases a tool may have."""

LISTS = ("phrases", "aliases")
"""The keys of an entry."""

_CAPS = {"phrases": PHRASES_CAP, "aliases": ALIASES_CAP}
_HOW_TOML = 'Write [server.tool] with phrases = ["..."] or aliases = ["..."].'
_HOW_ROWS = 'Write {"server": "...", "tool": "...", "phrases": ["..."], "aliases": ["..."]}.'


def is_json_lines(file: str) -> bool:
    """Whether an overlay file of this name has JSON Lines; any other has TOML."""
    return PurePath(file).suffix.casefold() in (".jsonl", ".ndjson")


def parse_overlay(text: str, *, file: str) -> Overlay:
    """The overlay in a text; ConfigError says which line is wrong, and what to do."""
    return _parse_rows(text, file) if is_json_lines(file) else _parse_toml(text, file)


def _parse_rows(text: str, file: str) -> Overlay:
    entries: dict[ToolKey, OverlayEntry] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            key, table = parse_row(line)
            _check_is_new(key, entries)
            entries[key] = _parse_entry(key, table, number)
        except _EntryError as error:
            hint = error.hint or _HOW_ROWS
            raise ConfigError(f"{file}, line {number}: {error}", hint=hint) from error
    return Overlay(entries, text)


def _check_is_new(key: ToolKey, entries: Mapping[ToolKey, OverlayEntry]) -> None:
    if key in entries:
        message = f"{'.'.join(key)} is already in line {entries[key].line}."
        raise _EntryError(message, hint="Write one row for each tool.")


def parse_row(line: str) -> tuple[ToolKey, dict[str, object]]:
    """The tool of a row of JSON Lines, and the other keys of the row."""
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _EntryError(f"not JSON: {error}.", hint="Fix that line.") from error
    row = dict(_as_table(value, ("the row",)))
    server, tool = row.pop("server", None) or CUSTOM, row.pop("tool", None)
    if not (isinstance(tool, str) and tool and isinstance(server, str)):
        raise _EntryError("tool and server are the names of a tool and of its server.")
    return (server, tool), row


def set_row_list(text: str, key: ToolKey, name: str, items: Sequence[str]) -> str:
    """A text of JSON Lines with one list of one tool; an empty list is removed, or its row."""
    lines = text.split("\n")[: -1 if text.endswith("\n") else None] if text else []
    keys = [parse_row(line)[0] if line.strip() else None for line in lines]
    place = keys.index(key) if key in keys else len(lines)
    row = json.loads(lines[place]) if key in keys else _new_row(key)
    row = {**row, name: [*items]} if items else {k: v for k, v in row.items() if k != name}
    changed = [json.dumps(row, ensure_ascii=False)] if any(row.get(n) for n in LISTS) else []
    after = [*lines[:place], *changed, *lines[place + 1 :]]
    return "".join(f"{line}\n" for line in after)


def _new_row(key: ToolKey) -> dict[str, object]:
    server, tool = key
    return {"tool": tool} if server == CUSTOM else {"server": server, "tool": tool}


def _parse_toml(text: str, file: str) -> Overlay:
    try:
        document: Mapping[str, object] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _syntax_error(error, text, file) from error
    entries: dict[ToolKey, OverlayEntry] = {}
    lines = _table_lines(text)
    try:
        for server, tools in document.items():
            for tool, value in _as_table(tools, (server,)).items():
                line = lines.get((server, tool), lines.get((server,), 1))
                table = _as_table(value, (server, tool))
                entries[server, tool] = _parse_entry((server, tool), table, line)
    except _EntryError as error:
        line = _find_line(text, error.keys, lines)
        hint = error.hint or _HOW_TOML
        raise ConfigError(f"{file}, line {line}: {error}", hint=hint) from error
    return Overlay(entries, text)


def _syntax_error(error: Exception, text: str, file: str) -> ConfigError:
    if "line" in str(error):
        return ConfigError(f"{file} is not TOML: {error}.", hint="Fix that line.")
    # The parser met the end of the file inside a list or a text.
    last = max(_table_lines(text).values(), default=1)
    return ConfigError(
        f"{file} is not TOML: {error}. The last table is in line {last}.",
        hint="Look for a bracket or a quotation mark that is never closed.",
    )


class _EntryError(Exception):
    def __init__(self, message: str, keys: Sequence[str] = (), *, hint: str = "") -> None:
        super().__init__(message)
        self.keys = keys
        self.hint = hint


def _as_table(value: object, keys: Sequence[str]) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _EntryError(f"{'.'.join(keys)} is not a table.", keys)
    return cast("dict[str, object]", value)


def _parse_entry(key: ToolKey, table: Mapping[str, object], line: int) -> OverlayEntry:
    for name in table:
        if name not in LISTS:
            near = get_close_matches(name, LISTS, 1)
            hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(LISTS)}."
            raise _EntryError(f"{'.'.join(key)} has no {name!r}.", (*key, name), hint=hint)
    return OverlayEntry(
        _parse_lines(table, (*key, "phrases")), _parse_lines(table, (*key, "aliases")), line
    )


def _parse_lines(table: Mapping[str, object], keys: Sequence[str]) -> tuple[str, ...]:
    """A list of texts, cleaned like the texts of a server, each once."""
    *tool, name = keys
    value = table.get(name, [])
    lines = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(line, str) for line in lines):
        raise _EntryError(f"{name} of {'.'.join(tool)} is not a list of texts.", keys)
    cap = NAME_CAP if name == "aliases" else None
    texts = [_clean(str(line), cap) for line in lines]
    if not all(texts):
        hint = "Remove it, or write some words."
        raise _EntryError(f"{'.'.join(tool)} has an empty text in {name}.", keys, hint=hint)
    if len(texts) > _CAPS[name]:
        message = f"{'.'.join(tool)} has {len(texts)} {name}; at most {_CAPS[name]} are allowed."
        raise _EntryError(message, keys, hint="Keep those that differ most.")
    return tuple(dict.fromkeys(texts))


def _clean(text: str, cap: int | None) -> str:
    return clean_line(text) if cap is None else clean_line(text, cap=cap)


def _table_lines(text: str) -> Mapping[tuple[str, ...], int]:
    """The line of every table, counted from 1, and for a server the line of its first."""
    lines: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if keys := header_keys(line):
            lines.setdefault(keys[:1], number)
            lines.setdefault(keys, number)
    return lines


def _find_line(text: str, keys: Sequence[str], tables: Mapping[tuple[str, ...], int]) -> int:
    """The line of a key in its table, or else of the table; approximate for odd layouts."""
    start = tables.get(tuple(keys[:2]), tables.get(tuple(keys[:1]), 0))
    wanted = re.compile(rf"^\s*[\"']?{re.escape(keys[-1])}\b")
    for number, line in enumerate(text.splitlines(), 1):
        if number > start and wanted.match(line):
            return number
    return max(start, 1)
