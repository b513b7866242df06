"""What a caller may see and call, put together from several rules."""

from __future__ import annotations

from collections.abc import Collection

from ..catalog.filters import Filter
from ..catalog.tool import Tool
from ..disclosure.scope import is_allowed
from ..errors import ConfigError
from ..search.engine import Allow

Rule = Allow | Filter
"""Names, a rule over tools, or a choice of servers and tools."""


def rule(given: Rule | None) -> Allow | None:
    """What was given, as something that says yes or no to a tool."""
    if isinstance(given, Filter):
        return given.allows
    if given is None or callable(given):
        return given
    # A text is a collection of its letters, which nobody means.
    if isinstance(given, str) or not isinstance(given, Collection):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may give anything
        raise ConfigError(
            f"A {type(given).__name__} says nothing of which tools are allowed.",
            hint="Give names as a list or a set, a function of a tool, or a Filter.",
        )
    return given


def both(first: Allow | None, second: Allow | None) -> Allow | None:
    """What both rules allow; no rule allows everything."""
    if first is None or second is None:
        return second if first is None else first

    def allow(tool: Tool) -> bool:
        return is_allowed(tool, first) and is_allowed(tool, second)

    return allow
