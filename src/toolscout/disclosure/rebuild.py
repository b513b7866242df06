"""A session made anew from a conversation's messages, when nothing else is left of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from ..catalog.catalog import Catalog
from ..catalog.names import wire_name
from .asking import NAMES
from .discovery import NO_ROOM, UNKNOWN, role_of
from .history import Exchange, exchanges
from .loading import nothing
from .profile import Profile
from .replies.blocks import LOADED as LOADED_BLOCK
from .replies.scout import ALREADY, RUN
from .replies.scout import LOADED as LOADED_LINE
from .session import Session
from .snapshot import defining, referring


def rebuilt(
    id: str,  # noqa: A002 - as the session calls it
    messages: Iterable[object],
    *,
    profile: Profile,
    catalog: Catalog,
) -> Session:
    """What a conversation loaded, searched for and used, from its calls and their results alone.

    Names are remembered even where the catalog has lost the tool, and ignored where the model or
    the user merely mentioned them.
    """
    names = _Names(catalog)
    calls = exchanges(messages)
    session = referring(Session(id), (names.of(n) for call in calls for n in call.references))
    brought = (n for call in calls if call.defines for n in _defined((call.value or {})["tools"]))
    session = defining(session, map(names.of, brought))
    for exchange in calls:
        role = role_of(profile, exchange.name, catalog)
        match role:
            case None:
                if exchange.text.startswith(UNKNOWN):
                    continue
                name = names.of(exchange.name)
                session = session.load(name).used(name)
            case "search":
                session = session.searched(*_strings(exchange.arguments.get("query")))
                session = session.load(*map(names.of, _loaded(exchange, profile, catalog)))
            case "load" | "describe":
                session = session.load(*map(names.of, _asked(exchange)))
            case "unload":
                session = session.unload(*map(names.of, _asked(exchange)))
            case "call":
                session = session.used(*map(names.of, _strings(exchange.arguments.get("name"))))
            case "list":
                pass
    return session.load(at_most=profile.limits.loaded)


class _Names:
    """The way back from the names that providers accept to those of the catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._sent = {sent: n for n in catalog.tools if (sent := wire_name(n)) != n}

    def of(self, name: str) -> str:
        if name in self._catalog:
            return name
        meant = self._catalog.resolve(name)
        return self._sent.get(name) or (meant[0] if len(meant) == 1 else name)


def _asked(exchange: Exchange) -> Iterator[str]:
    for key in NAMES:
        yield from _strings(exchange.arguments.get(key))


def _loaded(exchange: Exchange, profile: Profile, catalog: Catalog) -> Iterator[str]:
    """The names that a search brought into view, as its result says in a form of ours."""
    yield from exchange.references
    if profile.loading is nothing:
        return
    value = exchange.value or {}
    if "loaded" in value:
        yield from _strings(value["loaded"])
        yield from _strings(value.get("alreadyAvailable"))
    elif "tools" in value:
        yield from _defined(value["tools"])
    elif exchange.text.startswith(f"{RUN}\n"):
        yield from (name for name in _headings(exchange.text) if name in catalog)
    else:
        yield from _written(exchange.text)
    _, full, below = exchange.text.partition(_full(profile))
    if full:
        yield from (name for name in _headings(below) if name in catalog)


def _full(profile: Profile) -> str:
    """The line above what a provider's list had no room for."""
    bridge = profile.bridge()
    return NO_ROOM.format(bridge=bridge.name) if bridge else NO_ROOM


def _defined(tools: object) -> Iterator[str]:
    """The names of definitions, those inside namespaces too."""
    for tool in cast("list[Any]", tools) if isinstance(tools, list) else []:
        match tool:
            case {"type": "namespace", "tools": inner}:
                yield from _defined(inner)
            case {"name": str(name)}:
                yield name
            case _:
                pass


def _written(text: str) -> Iterator[str]:
    """The names that one of our replies put where it puts what is loaded; nothing below that."""
    first, *rest = text.split("\n")
    if first.startswith(LOADED_LINE):
        listed = first.removeprefix(LOADED_LINE).split(" (")[0]
        yield from (name.strip() for name in listed.split(","))
        first = rest[0] if rest else ""
    if first.startswith(ALREADY):
        yield from (name.strip() for name in first.removeprefix(ALREADY).split(","))
    elif first == LOADED_BLOCK:
        for line in rest:
            if not line.startswith("- "):
                return
            yield line.removeprefix("- ")


def _headings(text: str) -> Iterator[str]:
    """What definitions begin with: the first word of each paragraph below the first line."""
    above = ""
    for line in text.split("\n")[1:]:
        if not above:
            yield line.split(": ")[0]
        above = line


def _strings(value: object) -> Iterator[str]:
    members = cast("list[object]", value) if isinstance(value, list) else [value]
    yield from (m for m in members if isinstance(m, str) and m)
