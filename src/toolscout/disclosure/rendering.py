"""Render tool definitions in a provider's format, with names and schemas that it accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..catalog.tool import Tool, digest
from .providers.dialect import fit_schema
from .providers.provider import Definition, Provider
from .providers.strict import tighten_schema
from .target import Target
from .tool_list import ToolEntry

_NO_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedTool:
    """One definition in a provider's format."""

    value: dict[str, Any]
    definition: Definition
    tool: Tool
    is_search: bool = False
    is_deferred: bool = False
    is_hidden: bool = False
    is_late: bool = False
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class RenderedToolList:
    """All definitions of a view, and the catalog name behind each wire name."""

    tools: tuple[RenderedTool, ...]
    names: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRenderer:
    """Renders definitions for one target; `stub_hint` replaces a hidden schema."""

    target: Target
    search: str = ""
    stub_hint: str = ""

    def render(self, entries: Sequence[ToolEntry]) -> RenderedToolList:
        """Render every entry."""
        provider = self.target.provider
        names: dict[str, str] = {}
        tools: list[RenderedTool] = []
        # The first tools get strict schemas until the provider's limit is used up.
        strict_left = self._strict_tool_limit()
        for entry in entries:
            name = _unique_wire_name(provider, entry.tool.name, names)
            names[name] = entry.tool.name
            tool, is_strict = self._render_entry(entry, name, may_be_strict=strict_left > 0)
            strict_left -= is_strict
            tools.append(tool)
        return RenderedToolList(tuple(tools), names)

    def _strict_tool_limit(self) -> int:
        strict = self.target.provider.strict
        if strict is None or not self.target.is_strict:
            return 0
        return strict.max_tools or _NO_LIMIT

    def _render_entry(
        self, entry: ToolEntry, name: str, *, may_be_strict: bool
    ) -> tuple[RenderedTool, bool]:
        provider, tool = self.target.provider, entry.tool
        schema = (
            self._stub_schema(name) if entry.state == "stub" else _fit_parameters(tool, provider)
        )
        strict_schema = None
        if may_be_strict and provider.strict is not None and entry.state != "stub":
            strict_schema = tighten_schema(schema, provider.strict)
        is_strict = strict_schema is not None
        definition = Definition(
            name=name,
            description=tool.description,
            schema=schema if strict_schema is None else strict_schema,
            title=tool.title,
            output=tool.output,
            annotations=tool.annotations,
            is_strict=is_strict,
            is_deferred=entry.state == "deferred",
        )
        rendered = RenderedTool(
            value=provider.define(definition),
            definition=definition,
            tool=tool,
            is_search=entry.is_search,
            is_deferred=definition.is_deferred,
            is_hidden=entry.state != "full",
            is_late=entry.is_late,
            namespace=entry.namespace,
        )
        return rendered, is_strict

    def _stub_schema(self, name: str) -> dict[str, Any]:
        """An open schema whose description may say how to get the real one."""
        stub: dict[str, Any] = {"type": "object"}
        if self.stub_hint:
            # `replace`, not `format`: the text of a profile may contain braces.
            hint = self.stub_hint.replace("{search}", self.search).replace("{name}", name)
            stub["description"] = hint
        # Open: the provider lets any arguments through, and the call is checked against the real
        # schema.
        return {**stub, "additionalProperties": True}


def _fit_parameters(tool: Tool, provider: Provider) -> dict[str, Any]:
    return fit_schema(tool.parameters.value, provider.dialect)


def _unique_wire_name(provider: Provider, name: str, taken: dict[str, str]) -> str:
    """The wire name of a tool, with a hash if another tool of the view has the same one."""
    wire_name = provider.to_wire_name(name)
    suffix = digest(name)
    # A catalog can hold both `a.b` and the wire name of `a.b`. Forty characters leave room for
    # the hash below every provider's limit.
    while wire_name in taken:
        wire_name = provider.to_wire_name(f"{name[:40]}_{suffix}")
        suffix = digest(name, suffix)
    return wire_name
