"""Namespaces for the tools of a hosted search; a namespace never changes once it was sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..catalog.tool import Tool, wire_name
from .surface import Mechanism

# Anthropic documents 10,000 deferred tools as the limit of its tool search.
MAX_HOSTED_TOOLS = 10_000
"""The largest number of tools that a hosted search accepts."""


def tool_group(tool: Tool) -> str:
    """The category of a tool, else its server."""
    return tool.category or tool.server


def assign_namespaces(
    mechanism: Mechanism, tools: Sequence[Tool], *, used: Iterable[str]
) -> list[tuple[Tool, str]]:
    """Tools that arrive together, in the order to send them, each with its namespace."""
    # Only OpenAI's hosted search has namespaces.
    if mechanism != "openai_hosted":
        return [(tool, "") for tool in tools]
    # Definitions that the search has put into the conversation come from the list. So a namespace
    # stays as it was sent, and tools that join its group later get another one, such as `crm_2`
    # (docs/decisions/surfaces.md).
    namespaces = _namespace_names({tool_group(t) for t in tools if tool_group(t)}, {*used})
    last = len(namespaces)
    positions = {group: i for i, group in enumerate(namespaces)}
    ordered = sorted(tools, key=lambda t: positions.get(tool_group(t), last))
    return [(tool, namespaces.get(tool_group(tool), "")) for tool in ordered]


def namespace_description(tool: Tool, namespace: str) -> str:
    """The description of a namespace that holds this tool."""
    start = "Tools" if namespace == wire_name(tool_group(tool)) else "Further tools"
    return f"{start} of {tool_group(tool)}."


def _namespace_names(groups: Iterable[str], used: set[str]) -> Mapping[str, str]:
    """An unused namespace for each group, sorted by group."""
    namespaces: dict[str, str] = {}
    for group in sorted(groups):
        name, number = wire_name(group), 2
        while name in used:
            name, number = wire_name(f"{group}_{number}"), number + 1
        used.add(name)
        namespaces[group] = name
    return namespaces
