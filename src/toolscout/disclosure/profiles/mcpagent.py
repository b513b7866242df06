"""Search by pattern, add by name: `search_tools`, `add_tool`, `show_all_tools`."""

from __future__ import annotations

from ...catalog.result import Result
from ...errors import QueryError, ToolscoutError
from ..matching.patterns import INVALID, Patterns
from ..metatools import metatool, parameters
from ..policy import Listing, Policy
from ..profile import Advice, Limits, Profile
from ..prompts import workflow
from ..replies.brief import brief
from ..replies.reply import plain_error, structured

_SEARCH = metatool(
    "search",
    "search_tools",
    "Search the available tools by name or description. What it returns must be added with "
    "add_tool before it can be used.",
    parameters(
        "query",
        query={
            "type": "string",
            "description": "A regex pattern over names and descriptions: plain text (weather), a "
            "sequence (database.*query), alternatives (file|folder), a beginning (^get_).",
        },
    ),
)

_ADD = metatool(
    "load",
    "add_tool",
    "Add one or more tools to those you can use, after finding them with search_tools.",
    parameters(
        "tool_names",
        tool_names={
            "type": "array",
            "items": {"type": "string"},
            "description": "The exact names, for example ['read_file', 'weather_get'].",
        },
    ),
)

_SHOW = metatool(
    "list",
    "show_all_tools",
    "List the names of all available tools, without descriptions; search_tools with a name tells "
    "more.",
    parameters(),
)

_REMOVE = metatool(
    "unload",
    "remove_tool",
    "Take tools you no longer need out of those you can use.",
    parameters("tool_names", tool_names={"type": "array", "items": {"type": "string"}}),
    shown=(),
)


def _complain(error: ToolscoutError) -> Result:
    """A bad pattern as JSON, like every other answer to a search; the rest in words."""
    if isinstance(error, QueryError) and error.message.startswith(INVALID):
        said = structured({"error": error.message})
        return Result(content=said.content, structured=said.structured, is_error=True)
    return plain_error(error)


MCPAGENT = Profile(
    name="mcpagent",
    summary="Patterns find tools, a second call adds them; nothing is shown before.",
    metatools=(_SEARCH, _ADD, _SHOW, _REMOVE),
    policy=Policy(rule="all", pinned=Listing(categories=("structured_output", "human"))),
    matcher=Patterns(),
    reply=brief,
    complain=_complain,
    prompt=workflow(),
    limits=Limits(hits=None, most=None),
    advice=Advice(message="No tools found that match the pattern."),
    on_empty="error",
    on_unloaded="execute",
    is_strict=False,
    aliases=(
        ("write_workspace_file", "update_workspace_file"),
        ("create_workspace_file", "update_workspace_file"),
    ),
)
