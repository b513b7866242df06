"""All tools known at one moment: an immutable snapshot, cheap to derive the next one from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from .names import digest, normalised, qualified
from .tool import Tool

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
    name, each of them gets its server (or a short hash of its source) in front, whichever came
    first; when only one is left, it has the plain name again.
    """

    __slots__ = (
        "_contested",
        "_digest",
        "_lookup",
        "_sources",
        "_step",
        "_token",
        "_tools",
        "version",
    )

    def __init__(self, tools: Iterable[Tool] = (), *, source: str = "default") -> None:
        self._tools: dict[str, Tool] = {}
        self._sources: dict[str, dict[str, str]] = {}
        self._contested: dict[str, dict[str, Tool]] = {}
        self._lookup: dict[str, tuple[str, ...]] | None = None
        self._digest: int | None = None
        self._token = object()
        self._step: tuple[object, Diff] | None = None
        self.version = 0
        change = _Change(self)
        change.put(source, tuple(tools))

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Every tool by name, in the order of arrival."""
        return MappingProxyType(self._tools)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that have tools here."""
        return tuple(self._sources)

    @property
    def fingerprint(self) -> str:
        """The same for the same tools, whatever the order they came in."""
        if self._digest is None:
            self._digest = sum(int(t.fingerprint, 16) for t in self._tools.values()) % _MODULUS
        return f"{self._digest:032x}"

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def get(self, name: str) -> Tool | None:
        """The tool of exactly this name."""
        return self._tools.get(name)

    def names_of(self, source: str) -> tuple[str, ...]:
        """The names that a source's tools have here."""
        return tuple(self._sources.get(source, {}).values())

    def with_source(self, source: str, tools: Iterable[Tool]) -> Catalog:
        """Add a source, or replace all that it had."""
        incoming = {t.name: t for t in tools}
        gone = [raw for raw in self._sources.get(source, {}) if raw not in incoming]
        after, change = self._next()
        change.drop(source, gone)
        change.put(source, incoming.values())
        return change.done(after)

    def without_source(self, source: str) -> Catalog:
        """Remove a source and its tools."""
        after, change = self._next()
        change.drop(source, list(self._sources.get(source, {})))
        after._sources.pop(source, None)
        return change.done(after)

    def add(self, *tools: Tool, source: str = "default") -> Catalog:
        """Add or replace single tools of a source; the rest of it stays."""
        after, change = self._next()
        change.put(source, tools)
        return change.done(after)

    def remove(self, *names: str) -> Catalog:
        """Remove tools by the names they have here; unknown names are ignored."""
        gone = {n for n in names if n in self._tools}
        after, change = self._next()
        for source, claims in self._sources.items():
            change.drop(source, [raw for raw, name in claims.items() if name in gone])
        return change.done(after)

    def diff(self, older: Catalog) -> Diff:
        """What turns `older` into this snapshot."""
        if older is self:
            return Diff()
        if self._step is not None and self._step[0] is older._token:
            return self._step[1]
        return _difference(older._tools, self._tools)

    def resolve(self, name: str) -> tuple[str, ...]:
        """The names a loose spelling may mean: exact, else another case style or without server."""
        if name in self._tools:
            return (name,)
        if self._lookup is None:
            self._lookup = _loose(self._tools.values())
        return self._lookup.get(normalised(name), ())

    def _next(self) -> tuple[Catalog, _Change]:
        after = Catalog.__new__(Catalog)
        after._tools = self._tools.copy()
        after._sources = self._sources.copy()
        after._contested = self._contested.copy()
        after._lookup = None
        after._digest = None
        after._token = object()
        after._step = None
        after.version = self.version + 1
        return after, _Change(after, before=self)


class _Change:
    """The one place that writes into a snapshot, before anybody else has seen it."""

    def __init__(self, target: Catalog, *, before: Catalog | None = None) -> None:
        self.target = target
        self.before = before
        self.touched: dict[str, None] = {}
        self.owned: set[str] = set()

    def claims(self, source: str) -> dict[str, str]:
        sources = self.target._sources
        if source not in self.owned:
            self.owned.add(source)
            sources[source] = sources.get(source, {}).copy()
        return sources[source]

    def put(self, source: str, tools: Iterable[Tool]) -> None:
        target = self.target
        for tool in tools:
            claims = self.claims(source)
            raw = tool.name
            if raw in target._contested:
                target._contested[raw] = {**target._contested[raw], source: tool}
                self.settle(raw)
            elif claims.get(raw) == raw or raw not in target._tools:
                claims[raw] = raw
                self.write(raw, tool)
            else:
                holder = self.holder(raw)
                target._contested[raw] = {holder: target._tools[raw], source: tool}
                self.settle(raw)

    def drop(self, source: str, raws: list[str]) -> None:
        target = self.target
        for raw in raws:
            claims = self.claims(source)
            self.erase(claims.pop(raw))
            if raw in target._contested:
                left = {s: t for s, t in target._contested[raw].items() if s != source}
                target._contested[raw] = left
                self.settle(raw)
        if source in target._sources and not target._sources[source]:
            del target._sources[source]
            self.owned.discard(source)

    def settle(self, raw: str) -> None:
        """Give every claimant of a name the one it has from the set of claimants alone."""
        target = self.target
        claimants = target._contested[raw]
        for source in claimants:
            if (old := self.claims(source).pop(raw, None)) is not None:
                self.erase(old)
        if len(claimants) == 1:
            del target._contested[raw]
        taken = [qualified(t.server or s, raw) for s, t in claimants.items()]
        for source, tool in claimants.items():
            name = raw if len(claimants) == 1 else qualified(tool.server or source, raw)
            if len(claimants) > 1 and (
                name == raw or taken.count(name) > 1 or name in target._tools
            ):
                name = f"{raw}_{digest(source, raw)}"
            self.claims(source)[raw] = name
            self.write(name, replace(tool, name=name))

    def holder(self, raw: str) -> str:
        sources = self.target._sources
        return next(s for s, claims in sources.items() if claims.get(raw) == raw)

    def write(self, name: str, tool: Tool) -> None:
        self.touched[name] = None
        self.target._tools[name] = tool

    def erase(self, name: str) -> None:
        self.touched[name] = None
        self.target._tools.pop(name, None)

    def done(self, after: Catalog) -> Catalog:
        before = self.before
        assert before is not None
        old = {n: t for n in self.touched if (t := before.get(n)) is not None}
        new = {n: t for n in self.touched if (t := after.get(n)) is not None}
        step = _difference(old, new)
        if before._digest is not None:
            lost = sum(int(t.fingerprint, 16) for t in old.values())
            won = sum(int(t.fingerprint, 16) for t in new.values())
            after._digest = (before._digest - lost + won) % _MODULUS
        after._step = (before._token, step)
        return after


def _difference(before: Mapping[str, Tool], now: Mapping[str, Tool]) -> Diff:
    return Diff(
        added=tuple(t for n, t in now.items() if n not in before),
        changed=tuple(
            t for n, t in now.items() if (b := before.get(n)) is not None and b is not t and b != t
        ),
        removed=tuple(n for n in before if n not in now),
    )


def _loose(tools: Iterable[Tool]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for tool in tools:
        for spelling in {normalised(tool.name), normalised(tool.local_name)}:
            found.setdefault(spelling, []).append(tool.name)
    return {spelling: tuple(names) for spelling, names in found.items()}
