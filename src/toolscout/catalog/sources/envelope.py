"""What lists of tools come wrapped in, and what a wrapping says of the tools inside it."""

from __future__ import annotations

from collections.abc import Mapping

LISTS = ("tools", "functions", "function_declarations", "functionDeclarations")
"""Keys under which the known shapes keep their list of tools."""


def is_tool(members: Mapping[str, object]) -> bool:
    """Whether an object is a tool itself, whatever else it may hold."""
    return "name" in members and members.get("type") != "namespace"


def server_of(members: Mapping[str, object]) -> str:
    """The namespace or server that the tools inside an envelope belong to."""
    name = members.get("name") if members.get("type") == "namespace" else members.get("server")
    return name if isinstance(name, str) else ""
