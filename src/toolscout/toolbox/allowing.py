"""What a caller may see and call, put together from several rules."""

from __future__ import annotations

from ..catalog.tool import Tool
from ..disclosure.scope import is_allowed
from ..search.engine import Allow


def both(first: Allow | None, second: Allow | None) -> Allow | None:
    """What both rules allow; no rule allows everything."""
    if first is None or second is None:
        return second if first is None else first

    def allow(tool: Tool) -> bool:
        return is_allowed(tool, first) and is_allowed(tool, second)

    return allow
