"""Writing definitions in a provider's form: names and schemas made to fit, limits kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..catalog.names import digest
from ..catalog.tool import Tool
from .lineup import Entry
from .providers.dialect import fit
from .providers.provider import Definition, Provider
from .providers.strict import tighten
from .target import Target

_NO_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One definition as a provider takes it."""

    value: dict[str, Any]
    tool: Tool
    is_search: bool = False
    is_deferred: bool = False
    is_late: bool = False
    space: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """All definitions of a view, and the real name behind each sent one."""

    written: tuple[Written, ...]
    names: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pen:
    """Writes for one target; `stub_hint` stands in for a hidden schema."""

    target: Target
    search: str = ""
    stub_hint: str = ""

    def write(self, entries: Sequence[Entry]) -> Sheet:
        """Write every entry."""
        provider = self.target.provider
        names: dict[str, str] = {}
        written: list[Written] = []
        room = self._strict_room()
        for entry in entries:
            name = _unique(provider, entry.tool.name, names)
            names[name] = entry.tool.name
            one, was_strict = self._one(entry, name, may_be_strict=room > 0)
            room -= was_strict
            written.append(one)
        return Sheet(tuple(written), names)

    def _strict_room(self) -> int:
        strict = self.target.provider.strict
        if strict is None or not self.target.is_strict:
            return 0
        return strict.most_tools or _NO_LIMIT

    def _one(self, entry: Entry, name: str, *, may_be_strict: bool) -> tuple[Written, bool]:
        provider, tool = self.target.provider, entry.tool
        schema = self._stub(name) if entry.state == "stub" else _fitted(tool, provider)
        tight = None
        if may_be_strict and provider.strict is not None and entry.state != "stub":
            tight = tighten(schema, provider.strict)
        definition = Definition(
            name=name,
            description=tool.description,
            schema=schema if tight is None else tight,
            title=tool.title,
            output=tool.output,
            annotations=tool.annotations,
            is_strict=tight is not None,
            is_deferred=entry.state == "deferred",
        )
        written = Written(
            value=provider.define(definition),
            tool=tool,
            is_search=entry.is_search,
            is_deferred=definition.is_deferred,
            is_late=entry.is_late,
            space=entry.space,
        )
        return written, tight is not None

    def _stub(self, name: str) -> dict[str, Any]:
        """An open schema that says, if the profile wants it said, where the real one is."""
        stub: dict[str, Any] = {"type": "object"}
        if self.stub_hint:
            said = self.stub_hint.replace("{search}", self.search).replace("{name}", name)
            stub["description"] = said
        return {**stub, "additionalProperties": True}


def _fitted(tool: Tool, provider: Provider) -> dict[str, Any]:
    return fit(tool.parameters.value, provider.dialect)


def _unique(provider: Provider, name: str, taken: dict[str, str]) -> str:
    """The sent name; one that another tool of the view already has gets a hash."""
    sent = provider.wire(name)
    mark = digest(name)
    while sent in taken:
        sent = provider.wire(f"{name[:40]}_{mark}")
        mark = digest(name, mark)
    return sent
