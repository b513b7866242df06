"""Toolscout: tool search for LLM agents.

The names below are all that most programs need; each is imported when it is first used, so that
`import toolscout` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent.agent import Agent
    from .catalog.catalog import Catalog
    from .catalog.result import Result
    from .catalog.source import Source
    from .catalog.tool import Tool
    from .config import Config
    from .disclosure.feature import CallerSession, Feature
    from .disclosure.profile import Profile
    from .disclosure.session_state import SessionState
    from .disclosure.view import View
    from .errors import ToolscoutError
    from .events import Event
    from .search.engine import Engine
    from .sources.functions import tool
    from .toolbox.call_record import CallRecord
    from .toolbox.session import Session
    from .toolbox.step import Step
    from .toolbox.toolbox import Toolbox

__all__ = [
    "Agent",
    "CallRecord",
    "CallerSession",
    "Catalog",
    "Config",
    "Engine",
    "Event",
    "Feature",
    "Profile",
    "Result",
    "Session",
    "SessionState",
    "Source",
    "Step",
    "Tool",
    "Toolbox",
    "ToolscoutError",
    "View",
    "tool",
]

_HOMES = {
    "Agent": ".agent.agent",
    "CallRecord": ".toolbox.call_record",
    "CallerSession": ".disclosure.feature",
    "Catalog": ".catalog.catalog",
    "Config": ".config",
    "Engine": ".search.engine",
    "Event": ".events",
    "Feature": ".disclosure.feature",
    "Profile": ".disclosure.profile",
    "Result": ".catalog.result",
    "Session": ".toolbox.session",
    "SessionState": ".disclosure.session_state",
    "Source": ".catalog.source",
    "Step": ".toolbox.step",
    "Tool": ".catalog.tool",
    "Toolbox": ".toolbox.toolbox",
    "ToolscoutError": ".errors",
    "View": ".disclosure.view",
    "tool": ".sources.functions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
