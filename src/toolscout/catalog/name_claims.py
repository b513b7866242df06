"""Resolve name conflicts between sources: one rule, applied only to the names that change.

A tool's *wanted* name is the one its source gave it. A single claimant gets it unchanged. Several
claimants all get their server (or source) as a prefix. If that qualified name is itself wanted, or
would be given twice, they get a hash of their source as a suffix instead. Nobody gets a wanted name
that looks like the hashed form, so the three kinds never collide, and the outcome depends only on
the set of claims, not on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from .tool import SEPARATOR, Tool, add_hash_suffix, digest, has_hash_suffix, qualify_name


@dataclass(frozen=True, slots=True)
class NameClaims:
    """All claims and the resulting names; immutable once it is built."""

    tools: dict[str, Tool] = field(default_factory=dict[str, Tool])
    names_by_source: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """By source: the resulting name of each wanted name."""
    contested: dict[str, dict[str, Tool]] = field(default_factory=dict[str, dict[str, Tool]])
    """By wanted name that nobody gets unchanged: each claimant's tool with its original name."""
    assigned: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """By name that nobody wanted: the source that has it, and the name it wanted."""
    qualified_claims: dict[str, frozenset[tuple[str, str]]] = field(
        default_factory=dict[str, frozenset[tuple[str, str]]]
    )
    """By qualified name: the contested claims (source and wanted name) that would use it."""

    def claim_of(self, name: str) -> tuple[str, str] | None:
        """The source that has a name, and the name it wanted."""
        if name in self.assigned:
            return self.assigned[name]
        if name not in self.tools:
            return None
        return _holder(self.names_by_source, name), name

    def tools_of(self, source: str) -> Iterator[Tool]:
        """The tools of a source, each with the name that it wanted."""
        for wanted in self.names_by_source.get(source, {}):
            claimants = self.contested.get(wanted)
            yield self.tools[wanted] if claimants is None else claimants[source]


class NameClaimsBuilder:
    """Builds the next claims from copies of the previous ones."""

    def __init__(self, before: NameClaims) -> None:
        self._tools = before.tools.copy()
        self._names_by_source = before.names_by_source.copy()
        self._contested = before.contested.copy()
        self._assigned = before.assigned.copy()
        self._qualified_claims = before.qualified_claims.copy()
        self._copied: set[str] = set()
        self._pending: dict[str, dict[str, Tool]] = {}
        self._affected: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        self._order: Sequence[str] = ()

    def put(self, source: str, tools: Iterable[Tool]) -> None:
        """Add the claims of a source; a tool it already has is replaced."""
        names = self._names_of(source)
        for tool in tools:
            wanted = tool.name
            is_own = names.get(wanted) == wanted and wanted not in self._contested
            if is_own or self._is_free(wanted):
                names[wanted] = wanted
                self._write(wanted, tool)
            else:
                names.setdefault(wanted, "")
                self._set_claimants(wanted, self._claimants(wanted) | {source: tool})
        self._forget_if_empty(source)

    def drop(self, source: str, wanted: Iterable[str]) -> None:
        """Withdraw claims of a source."""
        names = self._names_of(source)
        for name in wanted:
            if name in self._contested or name in self._qualified_claims:
                claimants = self._claimants(name)
                self._set_claimants(name, {s: t for s, t in claimants.items() if s != source})
            self._erase(names.pop(name))
        self._forget_if_empty(source)

    def sort_sources(self, order: Sequence[str]) -> None:
        """Put the sources into this order; others stay after them."""
        self._order = order

    def finish(self) -> tuple[NameClaims, tuple[str, ...]]:
        """The new claims, and the names whose tool has changed."""
        self._assign_names()
        self._sort()
        claims = NameClaims(
            self._tools,
            self._names_by_source,
            self._contested,
            self._assigned,
            self._qualified_claims,
        )
        return claims, tuple(self._changed)

    def _sort(self) -> None:
        present = self._names_by_source
        first = [source for source in self._order if source in present]
        sources = [*first, *(source for source in present if source not in {*first})]
        if sources == [*present]:
            return
        self._names_by_source = {source: present[source] for source in sources}
        place = {
            name: number
            for number, names in enumerate(self._names_by_source.values())
            for name in names.values()
        }
        self._tools = {
            name: self._tools[name] for name in sorted(self._tools, key=place.__getitem__)
        }

    def _names_of(self, source: str) -> dict[str, str]:
        """The names of a source, copied before the first write because snapshots share them."""
        if source not in self._copied:
            self._copied.add(source)
            self._names_by_source[source] = self._names_by_source.get(source, {}).copy()
        return self._names_by_source[source]

    def _forget_if_empty(self, source: str) -> None:
        if not self._names_by_source[source]:
            del self._names_by_source[source]
            self._copied.discard(source)

    def _is_free(self, wanted: str) -> bool:
        """Whether nobody has, wants or would use a name, and it may be given unchanged."""
        return not (
            wanted in self._tools
            or wanted in self._contested
            or wanted in self._qualified_claims
            or wanted in self._pending
            or has_hash_suffix(wanted)
        )

    def _claimants(self, wanted: str) -> dict[str, Tool]:
        if wanted in self._pending:
            return self._pending[wanted]
        if wanted in self._contested:
            return self._contested[wanted]
        if wanted in self._assigned or wanted not in self._tools:
            return {}
        return {_holder(self._names_by_source, wanted): self._tools[wanted]}

    def _set_claimants(self, wanted: str, claimants: dict[str, Tool]) -> None:
        """Change the claimants of a name; names are assigned once all changes are in."""
        for source, tool in self._contested.pop(wanted, {}).items():
            self._update_qualified_claim((source, wanted), tool, is_on=False)
        if _is_contested(wanted, claimants):
            self._contested[wanted] = claimants
            for source, tool in claimants.items():
                self._update_qualified_claim((source, wanted), tool, is_on=True)
        self._pending[wanted] = claimants
        self._affected[wanted] = None

    def _update_qualified_claim(self, claim: tuple[str, str], tool: Tool, *, is_on: bool) -> None:
        name = _server_qualified_name(claim[0], tool)
        claims = self._qualified_claims.pop(name, _NOBODY)
        claims = claims | {claim} if is_on else claims - {claim}
        if claims:
            self._qualified_claims[name] = claims
        self._affected[name] = None

    def _assign_names(self) -> None:
        """Assign a name to every claim that the changes may affect."""
        unsettled = dict.fromkeys(self._pending)
        # A claim also depends on who else wants its qualified name.
        for name in self._affected:
            unsettled |= {wanted: None for _, wanted in self._qualified_claims.get(name, _NOBODY)}
        assignments = [
            (source, wanted, name, tool)
            for wanted in unsettled
            for source, name, tool in self._name_assignments(wanted)
        ]
        # Erase all old names before writing the new ones: one claim's new name may be another
        # claim's old one, and erasing it later would delete the tool just written.
        for source, wanted, name, _ in assignments:
            if (old := self._names_of(source)[wanted]) not in ("", name):
                self._erase(old)
        for source, wanted, name, tool in assignments:
            self._names_of(source)[wanted] = name
            if name == wanted:
                self._write(name, tool)
            else:
                self._assigned[name] = (source, wanted)
                self._write(name, _rename(tool, name))

    def _name_assignments(self, wanted: str) -> Iterator[tuple[str, str, Tool]]:
        claimants = self._claimants(wanted)
        is_contested = _is_contested(wanted, claimants)
        length = _hash_length(wanted, claimants) if is_contested else 0
        for source, tool in claimants.items():
            if not is_contested:
                yield source, wanted, tool
                continue
            name = _server_qualified_name(source, tool)
            is_free = len(self._qualified_claims[name]) == 1 and not self._claimants(name)
            if not is_free or has_hash_suffix(name):
                name = add_hash_suffix(source, wanted, length=length)
            yield source, name, tool

    def _write(self, name: str, tool: Tool) -> None:
        if self._tools.get(name) != tool:
            self._changed[name] = None
            self._tools[name] = tool

    def _erase(self, name: str) -> None:
        if self._tools.pop(name, None) is not None:
            self._changed[name] = None
            self._assigned.pop(name, None)


_NOBODY: frozenset[tuple[str, str]] = frozenset()


def _holder(names_by_source: dict[str, dict[str, str]], name: str) -> str:
    """The source that has exactly the name it wanted."""
    return next(source for source, names in names_by_source.items() if names.get(name) == name)


def _is_contested(wanted: str, claimants: dict[str, Tool]) -> bool:
    """Whether nobody may have the name unchanged."""
    return len(claimants) > 1 or (len(claimants) == 1 and has_hash_suffix(wanted))


def _server_qualified_name(source: str, tool: Tool) -> str:
    return qualify_name(tool.server or source, tool.name)


def _hash_length(wanted: str, claimants: dict[str, Tool]) -> int:
    """The number of hash digits that distinguishes these sources."""
    lengths = (8, 16, 32)
    return next(
        (
            n
            for n in lengths
            if len({digest(s, wanted, length=n) for s in claimants}) == len(claimants)
        ),
        64,
    )


def _rename(tool: Tool, name: str) -> Tool:
    """The tool under another name; `local` keeps the name that its source knows."""
    readable = name.removeprefix(f"{tool.server}{SEPARATOR}") if tool.server else name
    local = tool.local_name
    return replace(tool, name=name, local="" if local == readable else local)
