"""Who claims which name, and who gets it: a pure rule, applied only to what changes.

A tool's *wanted* name is the one its source gave it. One claimant has it plain. Several claimants
all get their server (or source) in front; where that name is wanted by somebody, or would be given
twice, they get a hash of their source behind instead. Names of that last form are given to nobody
plain, so the three kinds never meet, and the outcome depends on the set of claims alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from .names import SEPARATOR, add_hash_suffix, digest, has_hash_suffix, qualify_name
from .tool import Tool


@dataclass(frozen=True, slots=True)
class NameClaims:
    """Every claim and its outcome; nothing here is written to once it is made."""

    tools: dict[str, Tool] = field(default_factory=dict[str, Tool])
    held: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """The name each source holds for each that it wanted."""
    contested: dict[str, dict[str, Tool]] = field(default_factory=dict[str, dict[str, Tool]])
    """By wanted name that nobody may have plain: each claimant's tool as it came."""
    given: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """By name that nobody wanted: the source that holds it, and what it wanted."""
    wishes: dict[str, frozenset[tuple[str, str]]] = field(
        default_factory=dict[str, frozenset[tuple[str, str]]]
    )
    """By qualified name: the contested claims, as source and wanted name, that would take it."""

    def claim_of(self, name: str) -> tuple[str, str] | None:
        """The source that holds a name, and the name it wanted."""
        if name in self.given:
            return self.given[name]
        if name not in self.tools:
            return None
        return _holder(self.held, name), name


class NameClaimsBuilder:
    """The next claims in the making: the one place that writes, before anybody has seen them."""

    def __init__(self, before: NameClaims) -> None:
        self._tools = before.tools.copy()
        self._held = before.held.copy()
        self._contested = before.contested.copy()
        self._given = before.given.copy()
        self._wishes = before.wishes.copy()
        self._own: set[str] = set()
        self._pending: dict[str, dict[str, Tool]] = {}
        self._stirred: dict[str, None] = {}
        self._touched: dict[str, None] = {}

    def put(self, source: str, tools: Iterable[Tool]) -> None:
        """Let a source claim names; one that it has already is replaced."""
        held = self._names_of(source)
        for tool in tools:
            wanted = tool.name
            is_kept = held.get(wanted) == wanted and wanted not in self._contested
            if is_kept or self._is_free(wanted):
                held[wanted] = wanted
                self._write(wanted, tool)
            else:
                held.setdefault(wanted, "")
                self._set_claimants(wanted, self._claimants(wanted) | {source: tool})
        self._forget_if_empty(source)

    def drop(self, source: str, wanted: Iterable[str]) -> None:
        """Withdraw claims that a source has."""
        held = self._names_of(source)
        for name in wanted:
            if name in self._contested or name in self._wishes:
                claimants = self._claimants(name)
                self._set_claimants(name, {s: t for s, t in claimants.items() if s != source})
            self._erase(held.pop(name))
        self._forget_if_empty(source)

    def finish(self) -> tuple[NameClaims, tuple[str, ...]]:
        """The finished claims, and the names whose tool may have changed."""
        self._assign_names()
        claims = NameClaims(self._tools, self._held, self._contested, self._given, self._wishes)
        return claims, tuple(self._touched)

    def _names_of(self, source: str) -> dict[str, str]:
        """What a source holds, copied before the first write to it."""
        if source not in self._own:
            self._own.add(source)
            self._held[source] = self._held.get(source, {}).copy()
        return self._held[source]

    def _forget_if_empty(self, source: str) -> None:
        if not self._held[source]:
            del self._held[source]
            self._own.discard(source)

    def _is_free(self, wanted: str) -> bool:
        """Nobody has it, wants it or would take it, and it may be given plain."""
        return not (
            wanted in self._tools
            or wanted in self._contested
            or wanted in self._wishes
            or wanted in self._pending
            or has_hash_suffix(wanted)
        )

    def _claimants(self, wanted: str) -> dict[str, Tool]:
        if wanted in self._pending:
            return self._pending[wanted]
        if wanted in self._contested:
            return self._contested[wanted]
        if wanted in self._given or wanted not in self._tools:
            return {}
        return {_holder(self._held, wanted): self._tools[wanted]}

    def _set_claimants(self, wanted: str, claimants: dict[str, Tool]) -> None:
        """Change who claims a name; whatever hangs on that is decided when all claims are in."""
        for source, tool in self._contested.pop(wanted, {}).items():
            self._update_wish((source, wanted), tool, is_on=False)
        if _is_contested(wanted, claimants):
            self._contested[wanted] = claimants
            for source, tool in claimants.items():
                self._update_wish((source, wanted), tool, is_on=True)
        self._pending[wanted] = claimants
        self._stirred[wanted] = None

    def _update_wish(self, claim: tuple[str, str], tool: Tool, *, is_on: bool) -> None:
        name = _server_qualified_name(claim[0], tool)
        wishing = self._wishes.pop(name, _NOBODY)
        wishing = wishing | {claim} if is_on else wishing - {claim}
        if wishing:
            self._wishes[name] = wishing
        self._stirred[name] = None

    def _assign_names(self) -> None:
        """Name every claim that a change may have decided anew: first let go, then take."""
        unsettled = dict.fromkeys(self._pending)
        for name in self._stirred:
            unsettled |= {wanted: None for _, wanted in self._wishes.get(name, _NOBODY)}
        taken = [
            (source, wanted, name, tool)
            for wanted in unsettled
            for source, name, tool in self._name_assignments(wanted)
        ]
        for source, wanted, name, _ in taken:
            if (old := self._names_of(source)[wanted]) not in ("", name):
                self._erase(old)
        for source, wanted, name, tool in taken:
            self._names_of(source)[wanted] = name
            if name == wanted:
                self._write(name, tool)
            else:
                self._given[name] = (source, wanted)
                self._write(name, _rename(tool, name))

    def _name_assignments(self, wanted: str) -> Iterator[tuple[str, str, Tool]]:
        claimants = self._claimants(wanted)
        crowded = _is_contested(wanted, claimants)
        length = _hash_length(wanted, claimants) if crowded else 0
        for source, tool in claimants.items():
            if not crowded:
                yield source, wanted, tool
                continue
            wish = _server_qualified_name(source, tool)
            is_free = len(self._wishes[wish]) == 1 and not self._claimants(wish)
            if not is_free or has_hash_suffix(wish):
                wish = add_hash_suffix(source, wanted, length=length)
            yield source, wish, tool

    def _write(self, name: str, tool: Tool) -> None:
        if self._tools.get(name) != tool:
            self._touched[name] = None
            self._tools[name] = tool

    def _erase(self, name: str) -> None:
        if self._tools.pop(name, None) is not None:
            self._touched[name] = None
            self._given.pop(name, None)


_NOBODY: frozenset[tuple[str, str]] = frozenset()


def _holder(held: dict[str, dict[str, str]], name: str) -> str:
    """The source that has this very name plain."""
    return next(source for source, names in held.items() if names.get(name) == name)


def _is_contested(wanted: str, claimants: dict[str, Tool]) -> bool:
    """Whether nobody may have the name plain."""
    return len(claimants) > 1 or (len(claimants) == 1 and has_hash_suffix(wanted))


def _server_qualified_name(source: str, tool: Tool) -> str:
    return qualify_name(tool.server or source, tool.name)


def _hash_length(wanted: str, claimants: dict[str, Tool]) -> int:
    """How many digits of the hash tell these sources apart."""
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
    """The tool under another name, still knowing what its source calls it."""
    readable = name.removeprefix(f"{tool.server}{SEPARATOR}") if tool.server else name
    local = tool.local_name
    return replace(tool, name=name, local="" if local == readable else local)
