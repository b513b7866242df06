"""Which tool a name means, when it is not quite the name."""

from __future__ import annotations

import re

from ..catalog.names import wire_name
from ..catalog.tool import Tool
from ..search.engine import Engine
from .scope import Scope
from .snapshot import read

_HASHED = re.compile(r"_[0-9a-f]{8}\Z")
_SENT_NAME = re.compile(r"[A-Za-z0-9_-]{1,55}_[0-9a-f]{8}(?![A-Za-z0-9_-])")


def meant(
    name: str, scope: Scope, *, aliases: tuple[tuple[str, str], ...] = ()
) -> tuple[Tool, ...]:
    """The allowed tools a name may mean: the exact one, else as sent to a provider, as shown
    before, in another case style, or by an alias; several when it is ambiguous."""
    exact = scope.get(name)
    if exact is not None:
        return (exact,)
    sent = _sent(name, scope)
    if sent:
        return sent
    before = _before(name, scope)
    found = _loosely(name, scope) if before is None else _still(before, scope)
    if found or before is not None:
        return found
    other = dict(aliases).get(name)
    return meant(other, scope) if other is not None else ()


def with_real_names(text: str, scope: Scope) -> str:
    """The text with names that were sent to a provider turned back into those of the catalog."""

    def real(match: re.Match[str]) -> str:
        found = _sent(match.group(), scope)
        return found[0].name if found else match.group()

    return _SENT_NAME.sub(real, text)


def nearest(name: str, scope: Scope, engine: Engine, *, most: int = 5) -> tuple[str, ...]:
    """Names that the caller may have meant instead."""
    results = engine.search(name.replace("_", " "), limit=most, allow=scope.allow)
    return tuple(dict.fromkeys((*results.names, *results.near)))[:most]


def _sent(name: str, scope: Scope) -> tuple[Tool, ...]:
    if not _HASHED.search(name):
        return ()
    return tuple(t for t in scope.tools if wire_name(t.name) == name)


def _before(name: str, scope: Scope) -> Tool | None:
    """The tool of a server that the model was sent under this name."""
    snapshot = read(scope.session)
    before = snapshot.get(name) if snapshot else None
    return before if before and before.server else None


def _still(before: Tool, scope: Scope) -> tuple[Tool, ...]:
    """The same tool of the same server, renamed since because another server has its name too;
    never that other server's."""
    found = (scope.get(n) for n in scope.catalog.resolve(before.local_name))
    return tuple(t for t in found if t is not None and t.server == before.server)[:1]


def _loosely(name: str, scope: Scope) -> tuple[Tool, ...]:
    found = (scope.get(n) for n in scope.catalog.resolve(name))
    return tuple(t for t in found if t is not None)
