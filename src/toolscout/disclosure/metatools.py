"""The discovery tools: what they are called, what they take, and what they are for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..catalog.names import normalise_name
from ..catalog.schema import Schema
from ..catalog.tool import Annotations, Tool
from .surface import Surface

Role = Literal["search", "load", "unload", "list", "describe", "call"]
"""What a discovery tool does, whatever a profile calls it."""

EVERYWHERE: tuple[Surface, ...] = ("load", "dispatch", "native")

_ROLE_BY_NAME: Mapping[str, Role] = {
    "tool_search": "search",
    "search_tools": "search",
    "add_tool": "load",
    "load_tools": "load",
    "remove_tool": "unload",
    "unload_tools": "unload",
    "show_all_tools": "list",
    "list_tools": "list",
    "describe_tools": "describe",
    "call_tool": "call",
}


@dataclass(frozen=True, slots=True)
class Metatool:
    """A discovery tool of a profile: its role, its definition, and the surfaces that show it."""

    role: Role
    tool: Tool
    shown: tuple[Surface, ...] = EVERYWHERE

    @property
    def name(self) -> str:
        """The name the model calls it by."""
        return self.tool.name


def metatool(
    role: Role,
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    *,
    shown: tuple[Surface, ...] = EVERYWHERE,
    title: str = "",
) -> Metatool:
    """Define a discovery tool; it is never deferred and only reads, but for those that load."""
    reads = role in ("search", "list", "describe")
    tool = Tool(
        name=name,
        title=title,
        description=description,
        parameters=Schema.of(parameters),
        defer="never",
        annotations=Annotations(read_only=True, idempotent=True) if reads else None,
    )
    return Metatool(role, tool, shown)


def object_schema(
    *required: str, closed: bool = False, **properties: Mapping[str, Any]
) -> dict[str, Any]:
    """An object schema of these properties."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: dict(value) for name, value in properties.items()},
    }
    if required:
        schema["required"] = [*required]
    if closed:
        schema["additionalProperties"] = False
    return schema


def role_for_name(name: str) -> Role | None:
    """The role that a name has in any design, whatever its case style."""
    return _ROLE_BY_NAME.get(normalise_name(name))


CALL_TOOL = metatool(
    "call",
    "call_tool",
    "Runs a tool that tool_search found. If the arguments do not fit, the answer shows the schema.",
    object_schema(
        "name",
        "arguments",
        name={"type": "string", "description": "The tool's exact name."},
        arguments={"type": "object", "description": "Its arguments, as its schema says."},
    ),
    shown=("dispatch",),
)
"""Runs what is not in the tool list: always on dispatch, and where a provider's list is full."""
