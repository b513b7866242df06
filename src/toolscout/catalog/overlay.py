"""Overlay: phrases and aliases that people add to tools, apart from the tools' definitions."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import cast

from ..errors import ConfigError
from ..toml_edit import header_keys
from .catalog import Catalog
from .filters import CUSTOM
from .problem import Problem
from .sanitization import NAME_CAP, PHRASES_CAP, clean_line
from .tool import Tool, normalise_name

ALIASES_CAP = 20
"""How many aliases a tool may have."""

LISTS = ("phrases", "aliases")
_CAPS = {"phrases": PHRASES_CAP, "aliases": ALIASES_CAP}
_HOW = 'Write [server.tool] with phrases = ["..."] or aliases = ["..."].'
_CLOSE_MATCH = 0.6
# Suggestions take a while to find, and nobody reads hundreds of them.
_MAX_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class OverlayEntry:
    """What an overlay adds to one tool."""

    phrases: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    line: int = field(default=0, compare=False)
    """The line of its table in the file."""

    @property
    def searched_phrases(self) -> tuple[str, ...]:
        """The phrases that are indexed: the phrases, and the words of the aliases."""
        return (*self.phrases, *(normalise_name(a).replace("_", " ") for a in self.aliases))


ToolKey = tuple[str, str]
"""The server and the tool's name there; tools without a server are under `custom`."""


def tool_key(tool: Tool) -> ToolKey:
    """Where an overlay has the entry of a tool."""
    return tool.server or CUSTOM, tool.local_name


@dataclass(frozen=True, slots=True)
class Overlay:
    """All entries of an overlay file, and its text."""

    entries: Mapping[ToolKey, OverlayEntry] = field(default_factory=dict[ToolKey, OverlayEntry])
    text: str = field(default="", repr=False)

    def apply(self, tool: Tool) -> Tool:
        """The tool with its phrases and aliases; the same object if nothing changes."""
        entry = self.entries.get(tool_key(tool), _NOTHING)
        return tool.with_overlay(phrases=entry.searched_phrases, aliases=entry.aliases)

    def find_problems(self, catalog: Catalog, *, unlisted: Container[str] = ()) -> list[Problem]:
        """Entries without a tool, and aliases that name none or several.

        `unlisted` are servers whose tools are not known now.
        """
        known = {tool_key(tool) for tool in catalog}
        shared = self._shared_aliases(known)
        absent = [k for k in self.entries if k not in known and k[0] not in unlisted]
        idle = [
            (key, alias)
            for key, entry in self.entries.items()
            if key in known
            for alias in entry.aliases
            if normalise_name(alias) in shared or catalog.resolve(alias)
        ]
        problems = [
            *(self._warn(k, *_describe_unknown(k, known)) for k in absent[:_MAX_PROBLEMS]),
            *(self._warn(k, *_describe_alias(a, catalog, shared)) for k, a in idle),
        ]
        if (more := len(absent) + len(idle) - _MAX_PROBLEMS) > 0:
            message = f"{more} more entries like these."
            remedy = "See all with: toolscout catalog phrases list"
            rest = Problem("overlay", message, remedy, "warning", "overlay")
            problems = [*problems[:_MAX_PROBLEMS], rest]
        return problems

    def _shared_aliases(self, known: Container[ToolKey]) -> Mapping[str, list[str]]:
        """The aliases that several tools have, each with these tools."""
        owners: dict[str, list[str]] = {}
        for key, entry in self.entries.items():
            for spelling in {normalise_name(alias) for alias in entry.aliases}:
                if key in known:
                    owners.setdefault(spelling, []).append(".".join(key))
        return {spelling: keys for spelling, keys in owners.items() if len(keys) > 1}

    def _warn(self, key: ToolKey, message: str, remedy: str) -> Problem:
        where = f"line {self.entries[key].line}, {'.'.join(key)}"
        return Problem(where, message, remedy, "warning", "overlay")


_NOTHING = OverlayEntry()


def parse_overlay(text: str, *, file: str) -> Overlay:
    """The overlay in a TOML text; ConfigError says which line is wrong, and what to do."""
    try:
        document: Mapping[str, object] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _syntax_error(error, text, file) from error
    entries: dict[ToolKey, OverlayEntry] = {}
    lines = _table_lines(text)
    try:
        for server, tools in document.items():
            for tool, table in _as_table(tools, (server,)).items():
                line = lines.get((server, tool), lines.get((server,), 1))
                entries[server, tool] = _parse_entry((server, tool), table, line)
    except _EntryError as error:
        line = _find_line(text, error.keys, lines)
        raise ConfigError(f"{file}, line {line}: {error}", hint=error.hint) from error
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
    def __init__(self, message: str, keys: Sequence[str], *, hint: str = _HOW) -> None:
        super().__init__(message)
        self.keys = keys
        self.hint = hint


def _as_table(value: object, keys: Sequence[str]) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _EntryError(f"{'.'.join(keys)} is not a table.", keys)
    return cast("dict[str, object]", value)


def _parse_entry(key: ToolKey, value: object, line: int) -> OverlayEntry:
    table = _as_table(value, key)
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


def _describe_unknown(key: ToolKey, known: Iterable[ToolKey]) -> tuple[str, str]:
    server, tool = key
    names = [name for owner, name in known if owner == server]
    if names:
        message = f"The server {server!r} has no tool {tool!r} that can be used now."
        return message, _suggest(tool, names, f"{server}.")
    servers = dict.fromkeys(owner for owner, _ in known)
    return f"There is no server {server!r} here.", _suggest(server, servers)


def _suggest(name: str, known: Iterable[str], prefix: str = "") -> str:
    near = get_close_matches(name, [*known], 1, _CLOSE_MATCH)
    return f"Did you mean {prefix}{near[0]}?" if near else "Fix the name, or remove the entry."


def _describe_alias(
    alias: str, catalog: Catalog, shared: Mapping[str, Sequence[str]]
) -> tuple[str, str]:
    if owners := catalog.resolve(alias):
        message = f"The alias {alias!r} cannot be called: it is the name of {', '.join(owners)}."
        return message, "Choose another alias."
    tools = ", ".join(shared[normalise_name(alias)])
    return f"The alias {alias!r} is ambiguous: {tools} have it.", "Keep it for one of them."
