"""Immutable catalog snapshots: every known tool, with cheap updates, diffs and name lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from .name_claims import NameClaims, NameClaimsBuilder
from .tool import Tool, normalise_name

# A patch is copied with every change. Beyond this size, building the index again on the next
# lookup costs less than copying.
_MAX_PATCHES = 2_000


@dataclass(frozen=True, slots=True)
class NameIndex:
    """Names by normalised spelling: a shared base, and the changes since it was built."""

    base: Mapping[str, tuple[str, ...]]
    patch: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> NameIndex:
        """Index every spelling of these tools."""
        index: dict[str, tuple[str, ...]] = {}
        for tool in tools:
            for spelling in _spellings_of(tool):
                index[spelling] = (*index.get(spelling, ()), tool.name)
        return cls(index)

    def names(self, spelling: str) -> tuple[str, ...]:
        """The names with this spelling, sorted."""
        return tuple(sorted(self._names_for(normalise_name(spelling))))

    def with_changes(self, removed: Iterable[Tool], added: Iterable[Tool]) -> NameIndex | None:
        """The index after a change; None if so much changed that building it again is cheaper."""
        patch = dict(self.patch)
        for tool in removed:
            for spelling in _spellings_of(tool):
                names = patch.get(spelling, self.base.get(spelling, ()))
                patch[spelling] = tuple(n for n in names if n != tool.name)
        for tool in added:
            for spelling in _spellings_of(tool):
                names = patch.get(spelling, self.base.get(spelling, ()))
                patch[spelling] = (*names, tool.name)
        return NameIndex(self.base, patch) if len(patch) <= _MAX_PATCHES else None

    def _names_for(self, spelling: str) -> tuple[str, ...]:
        return self.patch.get(spelling, self.base.get(spelling, ()))


def _spellings_of(tool: Tool) -> set[str]:
    return {normalise_name(tool.name), normalise_name(tool.local_name)}


def _index_aliases(tools: Iterable[Tool]) -> Mapping[str, tuple[str, ...]]:
    """Names by the normalised spelling of their aliases, sorted."""
    index: dict[str, set[str]] = {}
    for tool in tools:
        for alias in tool.aliases:
            index.setdefault(normalise_name(alias), set()).add(tool.name)
    return {spelling: tuple(sorted(names)) for spelling, names in index.items()}


# A catalog's fingerprint is the sum of its tools' fingerprints modulo 2**128. A sum does not depend
# on the order, and the next snapshot can update it by the difference.
_MODULUS = 1 << 128


@dataclass(frozen=True, slots=True)
class Diff:
    """The tools that changed from one snapshot to another, by name."""

    added: tuple[Tool, ...] = ()
    changed: tuple[Tool, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


class Catalog:
    """A snapshot of tools with a version and a fingerprint; every change makes a new one.

    Tools belong to *sources*; adding a source again replaces it. If several sources claim one name,
    each gets its server (or its source) as a prefix, in whatever order they came. Once only one is
    left, it has the plain name again. A change without effect returns the same snapshot.
    """

    __slots__ = (
        "_alias_index",
        "_claims",
        "_digest",
        "_last_change",
        "_name_index",
        "_token",
        "_version",
    )

    def __init__(self, tools: Iterable[Tool] = (), *, source: str = "default") -> None:
        builder = NameClaimsBuilder(NameClaims())
        builder.put(source, tools)
        self._claims, _ = builder.finish()
        self._version = 0
        # A change remembers the token of its predecessor and not the predecessor itself, which
        # would keep every older snapshot in memory.
        self._token = object()
        self._last_change: tuple[object, Diff] | None = None
        self._digest: int | None = None
        self._name_index: NameIndex | None = None
        self._alias_index: Mapping[str, tuple[str, ...]] | None = None

    @property
    def version(self) -> int:
        """The number of changes since the first snapshot."""
        return self._version

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Every tool by name, in the order in which they were added."""
        return MappingProxyType(self._claims.tools)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that have tools in this catalog."""
        return tuple(self._claims.names_by_source)

    @property
    def fingerprint(self) -> str:
        """A hash of all tools that does not depend on their order."""
        if self._digest is None:
            self._digest = _combine_fingerprints(self._claims.tools.values())
        return f"{self._digest:032x}"

    def __len__(self) -> int:
        return len(self._claims.tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._claims.tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._claims.tools

    def __getitem__(self, name: str) -> Tool:
        return self._claims.tools[name]

    def __repr__(self) -> str:
        return (
            f"<Catalog version {self._version}: {len(self)} tools of {len(self.sources)} sources>"
        )

    def get(self, name: str) -> Tool | None:
        """The tool with exactly this name."""
        return self._claims.tools.get(name)

    def names_of(self, source: str) -> tuple[str, ...]:
        """The names that a source's tools have in this catalog."""
        return tuple(self._claims.names_by_source.get(source, {}).values())

    def source_of(self, name: str) -> str | None:
        """The source that the tool with this name belongs to."""
        claim = self._claims.claim_of(name)
        return None if claim is None else claim[0]

    def with_source(
        self, source: str, tools: Iterable[Tool], *, order: Sequence[str] = ()
    ) -> Catalog:
        """Add a source, or replace all its tools.

        A new source goes to its place in `order`, a list of sources, and to the end without one.
        """
        incoming = {t.name: t for t in tools}
        builder = NameClaimsBuilder(self._claims)
        builder.drop(
            source, [n for n in self._claims.names_by_source.get(source, {}) if n not in incoming]
        )
        builder.put(source, incoming.values())
        if source not in self._claims.names_by_source:
            builder.sort_sources(order)
        return self._next_snapshot(builder)

    def without_source(self, source: str) -> Catalog:
        """Remove a source and its tools."""
        builder = NameClaimsBuilder(self._claims)
        builder.drop(source, list(self._claims.names_by_source.get(source, {})))
        return self._next_snapshot(builder)

    def add(self, *tools: Tool, source: str = "default") -> Catalog:
        """Add or replace single tools of a source; the rest of it stays."""
        builder = NameClaimsBuilder(self._claims)
        builder.put(source, tools)
        return self._next_snapshot(builder)

    def remove(self, *names: str) -> Catalog:
        """Remove tools by their names in this catalog; unknown names are ignored."""
        builder = NameClaimsBuilder(self._claims)
        for name in dict.fromkeys(names):
            if (claim := self._claims.claim_of(name)) is not None:
                source, wanted = claim
                builder.drop(source, (wanted,))
        return self._next_snapshot(builder)

    def with_changed_tools(self, change: Callable[[Tool], Tool]) -> Catalog:
        """Change every tool, each with the name that its source gave it, which has to stay."""
        builder = NameClaimsBuilder(self._claims)
        for source in self._claims.names_by_source:
            before = tuple(self._claims.tools_of(source))
            changed = [after for tool in before if (after := change(tool)) is not tool]
            if changed:
                builder.put(source, changed)
        return self._next_snapshot(builder)

    def diff(self, older: Catalog) -> Diff:
        """The changes that turn `older` into this snapshot."""
        if older is self:
            return Diff()
        if self._last_change is not None and self._last_change[0] is older._token:
            return self._last_change[1]
        return _diff_tools(older._claims.tools, self._claims.tools)

    def resolve(self, name: str) -> tuple[str, ...]:
        """The names a spelling may mean: exact, else in any case style, with or without server."""
        if name in self._claims.tools:
            return (name,)
        if self._name_index is None:
            self._name_index = NameIndex.of(self._claims.tools.values())
        return self._name_index.names(name)

    def resolve_alias(self, name: str) -> tuple[str, ...]:
        """The names of the tools with this alias, in any case style; none for a tool's own name."""
        if self._alias_index is None:
            self._alias_index = _index_aliases(self._claims.tools.values())
        found = self._alias_index.get(normalise_name(name), ())
        return () if found and self.resolve(name) else found

    def _next_snapshot(self, builder: NameClaimsBuilder) -> Catalog:
        """The following snapshot, with the diff to this one ready for use."""
        claims, affected = builder.finish()
        if not affected:
            return self
        old = {n: t for n in affected if (t := self._claims.tools.get(n)) is not None}
        new = {n: t for n in affected if (t := claims.tools.get(n)) is not None}
        after = Catalog()
        after._claims = claims
        after._version = self._version + 1
        after._last_change = (self._token, _diff_tools(old, new))
        # Whatever was computed for this snapshot is updated by the difference; the rest stays lazy.
        if self._digest is not None:
            change = _combine_fingerprints(new.values()) - _combine_fingerprints(old.values())
            after._digest = (self._digest + change) % _MODULUS
        if self._name_index is not None:
            after._name_index = self._name_index.with_changes(old.values(), new.values())
        return after


def _combine_fingerprints(tools: Iterable[Tool]) -> int:
    return sum(int(t.fingerprint, 16) for t in tools) % _MODULUS


def _diff_tools(before: Mapping[str, Tool], after: Mapping[str, Tool]) -> Diff:
    return Diff(
        added=tuple(t for n, t in after.items() if n not in before),
        changed=tuple(
            t
            for n, t in after.items()
            if (b := before.get(n)) is not None and b is not t and b != t
        ),
        removed=tuple(n for n in before if n not in after),
    )
