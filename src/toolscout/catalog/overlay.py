"""Overlay: phrases and aliases that people add to tools, apart from the tools' definitions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from ..program import command_line
from .catalog import Catalog
from .filters import CUSTOM
from .problem import Problem
from .tool import Tool, normalise_name

_CLOSE_MATCH = 0.6
# Suggestions take a while to find, and nobody reads hundreds of them.
_MAX_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class OverlayEntry:
    """What an overlay adds to one tool."""

    phrases: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    line: int = field(default=0, compare=False)
    """The line of its table or row in the file."""

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
            remedy = f"See all with: {command_line('catalog', 'phrases', 'list')}"
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
