"""A value of a file with its line, or a place of the file that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CUT_OFF = "The file seems to be cut off: write it again, or complete its end."
FIX_ITEM = "Mend or delete this item."
FIX_REST = "Mend the file from here on."
FIX_LINE = "Mend the line, or delete it."

# The keys under which the known formats keep their list of tools.
TOOL_LIST_KEYS = ("tools", "functions", "function_declarations", "functionDeclarations")


@dataclass(frozen=True, slots=True)
class Row:
    """A value with the line it starts on or, with a `fault`, a place that cannot be read."""

    line: int
    value: object = None
    fault: str = ""
    remedy: str = ""
    envelope: Mapping[str, object] = field(default_factory=dict[str, object])
    """The other members of the object that has the row in its list of tools."""


def is_tool(members: Mapping[str, object]) -> bool:
    """Whether an object is a tool itself, even if it has a list of tools in it."""
    return "name" in members and members.get("type") != "namespace"


def server_of(members: Mapping[str, object]) -> str:
    """The namespace or server that the tools inside an envelope belong to."""
    name = members.get("name") if members.get("type") == "namespace" else members.get("server")
    return name if isinstance(name, str) else ""
