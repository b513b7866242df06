"""A session made anew from a conversation's messages, when nothing else is left of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from ..catalog.catalog import Catalog
from ..catalog.names import wire_name
from .designs.cortex import LOADED_HEADING as LOADED_BLOCK
from .discovery import LIST_FULL_HEADING, UNKNOWN_TOOL_PREFIX, role_of
from .history import ToolExchange, tool_exchanges
from .matcher import load_nothing
from .profile import Profile
from .reply import ALREADY_LINE, RUN_HEADING
from .reply import LOADED_LINE as LOADED_LINE
from .search_arguments import NAME_ARGUMENTS
from .session_state import SessionState
from .snapshot import record_definitions, record_references


def rebuild_session(
    id: str,  # noqa: A002 - as the session calls it
    messages: Iterable[object],
    *,
    profile: Profile,
    catalog: Catalog,
) -> SessionState:
    """What a conversation loaded, searched for and used, from its calls and their results alone.

    Names are remembered even where the catalog has lost the tool, and ignored where the model or
    the user merely mentioned them.
    """
    names = _WireNames(catalog)
    calls = tool_exchanges(messages)
    session = record_references(
        SessionState(id), (names.resolve(n) for call in calls for n in call.references)
    )
    brought = (
        n for call in calls if call.defines for n in _definition_names((call.value or {})["tools"])
    )
    session = record_definitions(session, map(names.resolve, brought))
    for exchange in calls:
        role = role_of(profile, exchange.name, catalog)
        match role:
            case None:
                if exchange.text.startswith(UNKNOWN_TOOL_PREFIX):
                    continue
                name = names.resolve(exchange.name)
                session = session.load(name).record_uses(name)
            case "search":
                session = session.record_searches(*_string_items(exchange.arguments.get("query")))
                session = session.load(
                    *map(names.resolve, _result_names(exchange, profile, catalog))
                )
            case "load" | "describe":
                session = session.load(*map(names.resolve, _argument_names(exchange)))
            case "unload":
                session = session.unload(*map(names.resolve, _argument_names(exchange)))
            case "call":
                session = session.record_uses(
                    *map(names.resolve, _string_items(exchange.arguments.get("name")))
                )
            case "list":
                pass
    return session.load(at_most=profile.limits.loaded)


class _WireNames:
    """The way back from the names that providers accept to those of the catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._sent = {sent: n for n in catalog.tools if (sent := wire_name(n)) != n}

    def resolve(self, name: str) -> str:
        if name in self._catalog:
            return name
        meant = self._catalog.resolve(name)
        return self._sent.get(name) or (meant[0] if len(meant) == 1 else name)


def _argument_names(exchange: ToolExchange) -> Iterator[str]:
    for key in NAME_ARGUMENTS:
        yield from _string_items(exchange.arguments.get(key))


def _result_names(exchange: ToolExchange, profile: Profile, catalog: Catalog) -> Iterator[str]:
    """The names that a search brought into view, as its result says in a form of ours."""
    yield from exchange.references
    if profile.loading is load_nothing:
        return
    value = exchange.value or {}
    if "loaded" in value:
        yield from _string_items(value["loaded"])
        yield from _string_items(value.get("alreadyAvailable"))
    elif "tools" in value:
        yield from _definition_names(value["tools"])
    elif exchange.text.startswith(f"{RUN_HEADING}\n"):
        yield from (name for name in _headings(exchange.text) if name in catalog)
    else:
        yield from _reply_names(exchange.text)
    _, full, below = exchange.text.partition(_list_full_line(profile))
    if full:
        yield from (name for name in _headings(below) if name in catalog)


def _list_full_line(profile: Profile) -> str:
    """The line above what a provider's list had no room for."""
    bridge = profile.dispatcher()
    return LIST_FULL_HEADING.format(bridge=bridge.name) if bridge else LIST_FULL_HEADING


def _definition_names(tools: object) -> Iterator[str]:
    """The names of definitions, those inside namespaces too."""
    for tool in cast("list[Any]", tools) if isinstance(tools, list) else []:
        match tool:
            case {"type": "namespace", "tools": inner}:
                yield from _definition_names(inner)
            case {"name": str(name)}:
                yield name
            case _:
                pass


def _reply_names(text: str) -> Iterator[str]:
    """The names that one of our replies put where it puts what is loaded; nothing below that."""
    first, *rest = text.split("\n")
    if first.startswith(LOADED_LINE):
        listed = first.removeprefix(LOADED_LINE).split(" (")[0]
        yield from (name.strip() for name in listed.split(","))
        first = rest[0] if rest else ""
    if first.startswith(ALREADY_LINE):
        yield from (name.strip() for name in first.removeprefix(ALREADY_LINE).split(","))
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


def _string_items(value: object) -> Iterator[str]:
    members = cast("list[object]", value) if isinstance(value, list) else [value]
    yield from (m for m in members if isinstance(m, str) and m)
