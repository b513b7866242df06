"""Names and descriptions, to be added by a second call (the mcpagent reply)."""

from __future__ import annotations

from typing import Any

from ...catalog.result import Result
from ...catalog.tool import Tool
from .reply import Found, structured


def brief(found: Found) -> Result:
    """How many were found, each by name and description, and what to do next."""
    answer: dict[str, Any] = {"found": len(found.tools), "tools": [_line(t) for t in found.tools]}
    if found.is_fuzzy:
        answer["fuzzy_used"] = True
    answer["message"] = _message(found) if found.tools else found.hint.message
    return structured(answer, indent=2)


def _line(tool: Tool) -> dict[str, str]:
    line = {"name": tool.name, "description": tool.description}
    return {**line, "server": tool.server} if tool.server else line


def _message(found: Found) -> str:
    how = "No tool matched the pattern; these are alike. " if found.is_fuzzy else "Tools found. "
    shared = _shared(found.tools)
    twice = f"{shared} is on several servers: its full name says which. " if shared else ""
    return f"{how}{twice}Load the ones you need with 'add_tool'."


def _shared(tools: tuple[Tool, ...]) -> str:
    """A name that several servers have, if there is one."""
    seen: dict[str, str] = {}
    for tool in tools:
        if seen.setdefault(tool.local_name, tool.server) != tool.server:
            return tool.local_name
    return ""
