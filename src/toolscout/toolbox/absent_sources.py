"""Sources whose tools are not in the catalog: why, and what a caller gets to know about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..catalog.catalog import Catalog
from ..catalog.tool import Tool, qualify_name
from ..disclosure.scope import is_allowed
from ..errors import SourceError, StartingError, ToolscoutError
from ..search.engine import Allow
from .server_content import admits_server

_MAX_NAME_CHARS = 100


def explain_starting(name: str, servers: Sequence[str]) -> StartingError:
    """Why a name is not a tool yet; with an empty name, why there is no tool at all."""
    are = f"{', '.join(servers)} {'is' if len(servers) == 1 else 'are'} still starting"
    hint = "Try again in a few seconds."
    if not name:
        text = f"No tools are connected yet: {are}."
    elif name.startswith(qualify_name(servers[0], "")):
        text = f"{name} cannot be called yet. Its server {are}."
    else:
        text = f"No tool is called {name[:_MAX_NAME_CHARS]!r} yet, but {are} and may have it."
        hint = "Try again in a few seconds, or search for another tool."
    return StartingError(text, servers=servers, hint=hint)


def note_absent(reasons: Mapping[str, str]) -> str:
    """The line of a search about servers that it does not cover; empty without any."""
    servers = ", ".join(f"{name} ({why})" for name, why in reasons.items())
    return f"Not searched: {servers}." if servers else ""


@dataclass(frozen=True, slots=True)
class AbsentSources:
    """The sources without tools: those that are still listed, and the problems of the others."""

    catalog: Catalog
    starting: frozenset[str]
    problems: Mapping[str, str]

    def note(self, allow: Allow | None) -> str:
        """The line of a search about the sources that it does not cover."""
        reasons = dict.fromkeys(self.problems, "failing") | dict.fromkeys(
            sorted(self.starting), "starting"
        )
        known = (name for name in reasons if admits_server(name, self.catalog, allow))
        return note_absent({name: reasons[name] for name in known})

    def explain(self, name: str, allow: Allow | None) -> ToolscoutError | None:
        """Why a name is not a tool now; None if no source could have it."""
        for source, why in self.problems.items():
            if name.startswith(qualify_name(source, "")) and _may_have(source, name, allow):
                return SourceError(f"{name} cannot be called: its server {source} fails: {why}")
        starting = [s for s in sorted(self.starting) if _may_have(s, name, allow)]
        named = [s for s in starting if name.startswith(qualify_name(s, ""))]
        if starting:
            return explain_starting(name, named or starting)
        failing = [s for s in self.problems if not name and _may_have(s, "", allow)]
        if not failing:
            return None
        reasons = "; ".join(f"{source}: {self.problems[source]}" for source in failing)
        return SourceError(f"No tools are connected: {reasons}")


def _may_have(source: str, name: str, allow: Allow | None) -> bool:
    """Whether a source could have a tool of this name, and the caller may use it."""
    prefix = qualify_name(source, "")
    full = name if name.startswith(prefix) else qualify_name(source, name or "tool")
    return is_allowed(Tool(name=full, server=source), allow)
