"""Which tool a name means, when it is not quite the name."""

from __future__ import annotations

import re

from ..catalog.names import wire_name
from ..catalog.tool import Tool
from ..search.engine import Engine
from .scope import Scope
from .snapshot import read_snapshot

_HASH_SUFFIX = re.compile(r"_[0-9a-f]{8}\Z")
_WIRE_NAME = re.compile(r"[A-Za-z0-9_-]{1,55}_[0-9a-f]{8}(?![A-Za-z0-9_-])")


def resolve_name(
    name: str, scope: Scope, *, aliases: tuple[tuple[str, str], ...] = ()
) -> tuple[Tool, ...]:
    """The allowed tools a name may mean: the exact one, else as sent to a provider, as shown
    before, in another case style, or by an alias; several when it is ambiguous."""
    exact = scope.get(name)
    if exact is not None:
        return (exact,)
    sent = _tools_by_wire_name(name, scope)
    if sent:
        return sent
    before = _previous_tool(name, scope)
    found = _resolve_loosely(name, scope) if before is None else _find_renamed(before, scope)
    if found or before is not None:
        return found
    other = dict(aliases).get(name)
    return resolve_name(other, scope) if other is not None else ()


def replace_wire_names(text: str, scope: Scope) -> str:
    """The text with names that were sent to a provider turned back into those of the catalog."""

    def real_name(match: re.Match[str]) -> str:
        found = _tools_by_wire_name(match.group(), scope)
        return found[0].name if found else match.group()

    return _WIRE_NAME.sub(real_name, text)


def nearest_names(name: str, scope: Scope, engine: Engine, *, most: int = 5) -> tuple[str, ...]:
    """Names that the caller may have meant instead."""
    results = engine.search(name.replace("_", " "), limit=most, allow=scope.allow)
    return tuple(dict.fromkeys((*results.names, *results.near)))[:most]


def _tools_by_wire_name(name: str, scope: Scope) -> tuple[Tool, ...]:
    if not _HASH_SUFFIX.search(name):
        return ()
    return tuple(t for t in scope.tools if wire_name(t.name) == name)


def _previous_tool(name: str, scope: Scope) -> Tool | None:
    """The tool of a server that the model was sent under this name."""
    snapshot = read_snapshot(scope.session)
    before = snapshot.get(name) if snapshot else None
    return before if before and before.server else None


def _find_renamed(before: Tool, scope: Scope) -> tuple[Tool, ...]:
    """The same tool of the same server, renamed since because another server has its name too;
    never that other server's."""
    found = (scope.get(n) for n in scope.catalog.resolve(before.local_name))
    return tuple(t for t in found if t is not None and t.server == before.server)[:1]


def _resolve_loosely(name: str, scope: Scope) -> tuple[Tool, ...]:
    found = (scope.get(n) for n in scope.catalog.resolve(name))
    return tuple(t for t in found if t is not None)
