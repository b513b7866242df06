"""What a hosted search is offered: every tool it may find, each in a place that it keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..catalog.names import wire_name
from ..catalog.tool import Tool
from .surface import Mechanism

MAX_HOSTED_TOOLS = 10_000
"""The most tools a hosted search takes."""


def tool_group(tool: Tool) -> str:
    """What a tool belongs to."""
    return tool.category or tool.server


def assign_namespaces(
    name: Mechanism, tools: Sequence[Tool], *, taken: Iterable[str]
) -> list[tuple[Tool, str]]:
    """Tools that come together, in the order they are sent in, with the namespace of each.

    OpenAI has namespaces: those of one time sorted, then what belongs to none. A namespace that
    was sent stays as it is, so tools that join its group later get a further one.
    """
    if name != "openai_hosted":
        return [(tool, "") for tool in tools]
    spaces = _namespace_names({tool_group(t) for t in tools if tool_group(t)}, {*taken})
    last = len(spaces)
    places = {g: i for i, g in enumerate(spaces)}
    ordered = sorted(tools, key=lambda t: places.get(tool_group(t), last))
    return [(tool, spaces.get(tool_group(tool), "")) for tool in ordered]


def namespace_description(tool: Tool, space: str) -> str:
    """What a namespace with this tool in it is for."""
    further = "Tools" if space == wire_name(tool_group(tool)) else "Further tools"
    return f"{further} of {tool_group(tool)}."


def _namespace_names(groups: Iterable[str], taken: set[str]) -> Mapping[str, str]:
    """A namespace for each group, sorted by group, under names that were not sent before."""
    spaces: dict[str, str] = {}
    for name in sorted(groups):
        space, number = wire_name(name), 2
        while space in taken:
            space, number = wire_name(f"{name}_{number}"), number + 1
        taken.add(space)
        spaces[name] = space
    return spaces
