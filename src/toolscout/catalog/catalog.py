"""All tools known at one moment: an immutable snapshot, cheap to derive the next one from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from .name_claims import NameClaims, NameClaimsBuilder
from .names import normalise_name
from .tool import Tool

_MOST_PATCHES = 2_000


@dataclass(frozen=True, slots=True)
class NameIndex:
    """Names by normalised spelling: a large shared base, and what changed since it was built."""

    base: Mapping[str, tuple[str, ...]]
    patch: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> NameIndex:
        """Every spelling of these tools."""
        found: dict[str, tuple[str, ...]] = {}
        for tool in tools:
            for spelling in _spellings_of(tool):
                found[spelling] = (*found.get(spelling, ()), tool.name)
        return cls(found)

    def names(self, spelling: str) -> tuple[str, ...]:
        """The names that are spelled like this, sorted."""
        return tuple(sorted(self._names_for(normalise_name(spelling))))

    def with_changes(self, gone: Iterable[Tool], come: Iterable[Tool]) -> NameIndex | None:
        """The same after a change; None when so much changed that building anew is cheaper."""
        patch = dict(self.patch)
        for tool in gone:
            for spelling in _spellings_of(tool):
                kept = patch.get(spelling, self.base.get(spelling, ()))
                patch[spelling] = tuple(n for n in kept if n != tool.name)
        for tool in come:
            for spelling in _spellings_of(tool):
                kept = patch.get(spelling, self.base.get(spelling, ()))
                patch[spelling] = (*kept, tool.name)
        return NameIndex(self.base, patch) if len(patch) <= _MOST_PATCHES else None

    def _names_for(self, spelling: str) -> tuple[str, ...]:
        return self.patch.get(spelling, self.base.get(spelling, ()))


def _spellings_of(tool: Tool) -> set[str]:
    return {normalise_name(tool.name), normalise_name(tool.local_name)}


_MODULUS = 1 << 128


@dataclass(frozen=True, slots=True)
class Diff:
    """What changed from one snapshot to the next, by name."""

    added: tuple[Tool, ...] = ()
    changed: tuple[Tool, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


class Catalog:
    """A snapshot of tools with a version and a fingerprint; every change makes a new one.

    Tools belong to *sources*; adding a source again replaces it. When several sources claim one
    name, each of them gets its server (or its source) in front, whichever came first; when only
    one is left, it has the plain name again. A change that changes nothing is the same snapshot.
    """

    __slots__ = ("_claims", "_digest", "_spellings", "_step", "_token", "_version")

    def __init__(self, tools: Iterable[Tool] = (), *, source: str = "default") -> None:
        draft = NameClaimsBuilder(NameClaims())
        draft.put(source, tools)
        self._claims, _ = draft.finish()
        self._version = 0
        self._token = object()
        self._step: tuple[object, Diff] | None = None
        self._digest: int | None = None
        self._spellings: NameIndex | None = None

    @property
    def version(self) -> int:
        """How many changes led here."""
        return self._version

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Every tool by name, in the order of arrival."""
        return MappingProxyType(self._claims.tools)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that have tools here."""
        return tuple(self._claims.held)

    @property
    def fingerprint(self) -> str:
        """The same for the same tools, whatever the order they came in."""
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
        """The tool of exactly this name."""
        return self._claims.tools.get(name)

    def names_of(self, source: str) -> tuple[str, ...]:
        """The names that a source's tools have here."""
        return tuple(self._claims.held.get(source, {}).values())

    def source_of(self, name: str) -> str | None:
        """The source that a tool of this name belongs to."""
        claim = self._claims.claim_of(name)
        return None if claim is None else claim[0]

    def with_source(self, source: str, tools: Iterable[Tool]) -> Catalog:
        """Add a source, or replace all that it had."""
        incoming = {t.name: t for t in tools}
        draft = NameClaimsBuilder(self._claims)
        draft.drop(source, [n for n in self._claims.held.get(source, {}) if n not in incoming])
        draft.put(source, incoming.values())
        return self._next_snapshot(draft)

    def without_source(self, source: str) -> Catalog:
        """Remove a source and its tools."""
        draft = NameClaimsBuilder(self._claims)
        draft.drop(source, list(self._claims.held.get(source, {})))
        return self._next_snapshot(draft)

    def add(self, *tools: Tool, source: str = "default") -> Catalog:
        """Add or replace single tools of a source; the rest of it stays."""
        draft = NameClaimsBuilder(self._claims)
        draft.put(source, tools)
        return self._next_snapshot(draft)

    def remove(self, *names: str) -> Catalog:
        """Remove tools by the names they have here; unknown names are ignored."""
        draft = NameClaimsBuilder(self._claims)
        for name in dict.fromkeys(names):
            if (claim := self._claims.claim_of(name)) is not None:
                source, wanted = claim
                draft.drop(source, (wanted,))
        return self._next_snapshot(draft)

    def diff(self, older: Catalog) -> Diff:
        """What turns `older` into this snapshot."""
        if older is self:
            return Diff()
        if self._step is not None and self._step[0] is older._token:
            return self._step[1]
        return _diff_tools(older._claims.tools, self._claims.tools)

    def resolve(self, name: str) -> tuple[str, ...]:
        """The names a loose spelling may mean: exact, else another case style or without server."""
        if name in self._claims.tools:
            return (name,)
        if self._spellings is None:
            self._spellings = NameIndex.of(self._claims.tools.values())
        return self._spellings.names(name)

    def _next_snapshot(self, draft: NameClaimsBuilder) -> Catalog:
        """The snapshot that follows, with the way from here to there kept for who asks."""
        claims, touched = draft.finish()
        if not touched:
            return self
        old = {n: t for n in touched if (t := self._claims.tools.get(n)) is not None}
        new = {n: t for n in touched if (t := claims.tools.get(n)) is not None}
        after = Catalog()
        after._claims = claims
        after._version = self._version + 1
        after._step = (self._token, _diff_tools(old, new))
        if self._digest is not None:
            change = _combine_fingerprints(new.values()) - _combine_fingerprints(old.values())
            after._digest = (self._digest + change) % _MODULUS
        if self._spellings is not None:
            after._spellings = self._spellings.with_changes(old.values(), new.values())
        return after


def _combine_fingerprints(tools: Iterable[Tool]) -> int:
    return sum(int(t.fingerprint, 16) for t in tools) % _MODULUS


def _diff_tools(before: Mapping[str, Tool], now: Mapping[str, Tool]) -> Diff:
    return Diff(
        added=tuple(t for n, t in now.items() if n not in before),
        changed=tuple(
            t for n, t in now.items() if (b := before.get(n)) is not None and b is not t and b != t
        ),
        removed=tuple(n for n in before if n not in now),
    )
