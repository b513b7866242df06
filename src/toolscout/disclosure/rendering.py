"""Writing definitions in a provider's form: names and schemas made to fit, limits kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..catalog.names import digest
from ..catalog.tool import Tool
from .providers.dialect import fit_schema
from .providers.provider import Definition, Provider
from .providers.strict import tighten_schema
from .target import Target
from .tool_list import ToolEntry

_NO_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedTool:
    """One definition as a provider takes it."""

    value: dict[str, Any]
    tool: Tool
    is_search: bool = False
    is_deferred: bool = False
    is_late: bool = False
    space: str = ""


@dataclass(frozen=True, slots=True)
class RenderedToolList:
    """All definitions of a view, and the real name behind each sent one."""

    written: tuple[RenderedTool, ...]
    names: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRenderer:
    """Writes for one target; `stub_hint` stands in for a hidden schema."""

    target: Target
    search: str = ""
    stub_hint: str = ""

    def render(self, entries: Sequence[ToolEntry]) -> RenderedToolList:
        """Write every entry."""
        provider = self.target.provider
        names: dict[str, str] = {}
        written: list[RenderedTool] = []
        room = self._strict_tool_limit()
        for entry in entries:
            name = _unique_wire_name(provider, entry.tool.name, names)
            names[name] = entry.tool.name
            one, was_strict = self._render_entry(entry, name, may_be_strict=room > 0)
            room -= was_strict
            written.append(one)
        return RenderedToolList(tuple(written), names)

    def _strict_tool_limit(self) -> int:
        strict = self.target.provider.strict
        if strict is None or not self.target.is_strict:
            return 0
        return strict.most_tools or _NO_LIMIT

    def _render_entry(
        self, entry: ToolEntry, name: str, *, may_be_strict: bool
    ) -> tuple[RenderedTool, bool]:
        provider, tool = self.target.provider, entry.tool
        schema = (
            self._stub_schema(name) if entry.state == "stub" else _fit_parameters(tool, provider)
        )
        tight = None
        if may_be_strict and provider.strict is not None and entry.state != "stub":
            tight = tighten_schema(schema, provider.strict)
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
        written = RenderedTool(
            value=provider.define(definition),
            tool=tool,
            is_search=entry.is_search,
            is_deferred=definition.is_deferred,
            is_late=entry.is_late,
            space=entry.space,
        )
        return written, tight is not None

    def _stub_schema(self, name: str) -> dict[str, Any]:
        """An open schema that says, if the profile wants it said, where the real one is."""
        stub: dict[str, Any] = {"type": "object"}
        if self.stub_hint:
            said = self.stub_hint.replace("{search}", self.search).replace("{name}", name)
            stub["description"] = said
        return {**stub, "additionalProperties": True}


def _fit_parameters(tool: Tool, provider: Provider) -> dict[str, Any]:
    return fit_schema(tool.parameters.value, provider.dialect)


def _unique_wire_name(provider: Provider, name: str, taken: dict[str, str]) -> str:
    """The sent name; one that another tool of the view already has gets a hash."""
    sent = provider.to_wire_name(name)
    mark = digest(name)
    while sent in taken:
        sent = provider.to_wire_name(f"{name[:40]}_{mark}")
        mark = digest(name, mark)
    return sent
