"""What a caller may see and call, put together from several rules."""

from __future__ import annotations

from ..catalog.filters import Filter
from ..catalog.tool import Tool
from ..disclosure.scope import is_allowed
from ..search.engine import Allow

Rule = Allow | Filter
"""Names, a rule over tools, or a choice of servers and tools."""


def rule(given: Rule | None) -> Allow | None:
    """What was given, as something that says yes or no to a tool."""
    return given.allows if isinstance(given, Filter) else given


def both(first: Allow | None, second: Allow | None) -> Allow | None:
    """What both rules allow; no rule allows everything."""
    if first is None or second is None:
        return second if first is None else first

    def allow(tool: Tool) -> bool:
        return is_allowed(tool, first) and is_allowed(tool, second)

    return allow
