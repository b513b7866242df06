"""Filters that select tools of a catalog by server and by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

from .problem import Problem
from .sanitization import clean_line
from .tool import Tool, name_spellings, normalise_name

Precedence = Literal["union", "specific_first"]
# As a server name: exclude the tools of all servers, whatever else is selected.
NO_SERVERS = "NO_SERVERS"
# The owner of a tool that has neither server nor category.
CUSTOM = "custom"
# Categories that stay beside selected servers unless entries of their own narrow them.
SYSTEM = frozenset(
    [
        "workspace",
        *(f"workspace_{part}" for part in ("basic", "advanced", "git", "browser")),
    ]
)
# The category of the tools that list and read what servers offer beside tools.
SERVER_CONTENT = "prompts and resources"
# Categories that no filter hides: control of the program, questions to people, the system itself.
UNFILTERED = frozenset(["structured_output", "human", "virtual", SERVER_CONTENT])
_KNOWN_CATEGORIES = SYSTEM | UNFILTERED
_ALL = "*"
_MAX_NAMES = 8
_MAX_NAME_CHARS = 60


@dataclass(frozen=True, slots=True)
class Filter:
    """A selection of servers (`github`) and of single tools (`workspace:read_file`, `github:*`).

    With neither, everything is allowed. A tool belongs to its server, else to its category, else
    to `custom`. If a server is selected and also has entries of its own, `union` takes both, and
    `specific_first` takes only the entries. Tools without a server are always allowed in the
    categories `structured_output`, `human`, `virtual` and `prompts and resources`.
    """

    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    precedence: Precedence = "union"
    _selected: frozenset[str] = field(init=False, repr=False, compare=False)
    _entries: dict[str, frozenset[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        selected = frozenset(
            _normalise_owner(s) for s in self.servers if s.strip() and s != NO_SERVERS
        )
        entries: dict[str, frozenset[str]] = {}
        for owner, tool in _parse_entries(self.tools):
            entries[owner] = entries.get(owner, frozenset()) | {tool}
        object.__setattr__(self, "_selected", selected)
        object.__setattr__(self, "_entries", entries)

    @property
    def is_active(self) -> bool:
        """Whether this filter can exclude anything."""
        return bool(self.servers or self.tools)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Entries that select nothing because they cannot be parsed."""
        return tuple(
            Problem(
                f"tools entry {entry!r}",
                "It does not name a tool of a server and is ignored.",
                "Write server:tool, or server:* for all of them.",
                "warning",
                "filter",
            )
            for entry in self.tools
            if not list(_parse_entries((entry,)))
        )

    def allows(self, tool: Tool) -> bool:
        """Whether a tool may be listed, found, loaded and called."""
        if not self.is_active:
            return True
        owner = _owner(tool)
        # The category of a server's tool does not count here: a server could choose one that no
        # filter hides.
        if tool.server:
            return not self._excludes_servers and self._selects(owner, tool)
        if owner in UNFILTERED:
            return True
        return self._selects(owner, tool) or (self._excludes_servers and not self._selects_any)

    def unmatched_names(self, tools: Iterable[Tool]) -> tuple[str, ...]:
        """The servers and entries that select none of these tools: most likely typos."""
        known = [*tools]
        names = (s for s in self.servers if s != NO_SERVERS)
        filters = [
            *((n, Filter((n,))) for n in names),
            *((t, Filter((), (t,))) for t in self.tools),
        ]
        return tuple(
            name
            for name, selection in filters
            if not any(selection._selects(_owner(t), t) for t in known)
        )

    def allows_server(self, server: str) -> bool:
        """Whether a server may have allowed tools, so that connecting to it makes sense."""
        if self._excludes_servers:
            return False
        owner = _normalise_owner(server)
        return not self._selected or owner in self._selected or owner in self._entries

    @property
    def _excludes_servers(self) -> bool:
        return NO_SERVERS in self.servers

    @property
    def _selects_any(self) -> bool:
        return bool(self._selected or self.tools)

    def _selects(self, owner: str, tool: Tool) -> bool:
        entries = self._entries.get(owner)
        if entries is None:
            return owner in self._selected or self._keeps_system(owner, tool)
        if _ALL in entries or (owner in self._selected and self.precedence == "union"):
            return True
        return normalise_name(tool.local_name) in entries or normalise_name(tool.name) in entries

    def _keeps_system(self, owner: str, tool: Tool) -> bool:
        # Entries alone select only themselves; beside servers the workspace stays.
        return bool(self.servers) and not tool.server and owner in SYSTEM


def describe_unknown_owners(
    wanted: Iterable[str], known: Collection[str], *, kind: str
) -> Iterator[str]:
    """One sentence for each wanted server, or category, that is not known in any spelling."""
    known = {name for name in known if name}
    spelled = set[str]().union(*map(name_spellings, known))
    for name in wanted:
        if spelled.isdisjoint(name_spellings(name)):
            yield describe_unknown_owner(name, known, kind=kind)


def describe_unknown_owner(name: str, known: Iterable[str], *, kind: str = "server") -> str:
    """Say that no server, or category, with tools is called so, and which ones are."""
    # "With tools": there may be a server of this name whose tools are held, or not known yet.
    quoted = clean_line(name, cap=_MAX_NAME_CHARS)
    start = f"No {kind} with tools is called {quoted!r}."
    names = [clean_line(each, cap=_MAX_NAME_CHARS) for each in known]
    by_case = {each.casefold(): each for each in names}
    near = get_close_matches(name.casefold(), by_case, n=3)
    if near:
        return f"{start} Did you mean {' or '.join(by_case[each] for each in near)}?"
    shown, rest = sorted(names)[:_MAX_NAMES], len(names) - _MAX_NAMES
    more = f" and {rest} more" if rest > 0 else ""
    return f"{start} There are: {', '.join(shown)}{more}." if shown else start


def _owner(tool: Tool) -> str:
    return _normalise_owner(tool.server or tool.category or CUSTOM)


def _normalise_owner(name: str) -> str:
    """One spelling for a server or category; known categories may end in `_tools`."""
    spelled = name.strip().lower().replace("-", "_")
    bare = spelled.removesuffix("_tools")
    return bare if bare in _KNOWN_CATEGORIES else spelled


def _parse_entries(entries: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        owner, colon, tool = entry.partition(":")
        if colon and owner.strip() and tool.strip():
            yield (
                _normalise_owner(owner),
                tool.strip() if tool.strip() == _ALL else normalise_name(tool.strip()),
            )
