"""Rebuild a session from the messages of a conversation, when the stored state is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from ..catalog.catalog import Catalog
from ..catalog.tool import wire_name
from .designs.cortex import LOADED_HEADING
from .discovery import LIST_FULL_HEADING, role_of
from .history import ToolExchange, as_list, as_mapping, tool_exchanges
from .matcher import load_nothing
from .profile import Profile
from .reply import ALREADY_LINE, LOADED_LINE, RUN_HEADING
from .resolution import UNKNOWN_TOOL_PREFIX
from .search_arguments import NAME_ARGUMENTS
from .session_state import SessionState
from .snapshot import record_definitions, record_references


def rebuild_session(
    id: str,  # noqa: A002 - the name of the field in SessionState
    messages: Iterable[object],
    *,
    profile: Profile,
    catalog: Catalog,
) -> SessionState:
    """What a conversation loaded, searched and used, from its calls and results alone.

    Names of tools that left the catalog are kept. Text that merely mentions a tool is ignored.
    """
    names = _WireNames(catalog)
    exchanges = tool_exchanges(messages)
    # Messages that deliver a tool keep doing so after the rebuild. The next view must not put
    # such a tool into the list in full as well.
    session = record_references(
        SessionState(id), (names.resolve(n) for e in exchanges for n in e.references)
    )
    defined = (
        n for e in exchanges if e.defines for n in _definition_names((e.value or {})["tools"])
    )
    session = record_definitions(session, map(names.resolve, defined))
    for exchange in exchanges:
        role = role_of(profile, exchange.name, catalog)
        match role:
            case None:
                # A call of a tool that never existed was neither loaded nor used.
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
    # The cap applies once, at the end: the loads above are in the order of the conversation.
    return session.load(at_most=profile.limits.loaded)


class _WireNames:
    """Maps wire names back to catalog names."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        # Built once: hashing every name for every lookup would be quadratic.
        self._names = {sent: n for n in catalog.tools if (sent := wire_name(n)) != n}

    def resolve(self, name: str) -> str:
        if name in self._catalog:
            return name
        candidates = self._catalog.resolve(name)
        return self._names.get(name) or (candidates[0] if len(candidates) == 1 else name)


def _argument_names(exchange: ToolExchange) -> Iterator[str]:
    for key in NAME_ARGUMENTS:
        yield from _string_items(exchange.arguments.get(key))


def _result_names(exchange: ToolExchange, profile: Profile, catalog: Catalog) -> Iterator[str]:
    """The names that a search loaded, read from a reply in one of our formats."""
    yield from exchange.references
    if profile.loading is load_nothing:
        return
    # The formats, in this order: Cortex and Everruns list `loaded`; CMS, Everruns without it and
    # OpenAI's search list `tools`; the default writes text.
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
    _, heading, definitions = exchange.text.partition(_list_full_heading(profile))
    if heading:
        yield from (name for name in _headings(definitions) if name in catalog)


def _list_full_heading(profile: Profile) -> str:
    dispatcher = profile.dispatcher()
    return LIST_FULL_HEADING.format(dispatcher=dispatcher.name) if dispatcher else LIST_FULL_HEADING


def _definition_names(tools: object) -> Iterator[str]:
    """The names of definitions, including those inside namespaces."""
    for tool in map(as_mapping, as_list(tools)):
        match tool:
            case {"type": "namespace", "tools": inner}:
                yield from _definition_names(inner)
            case {"name": str(name)}:
                yield name
            case _:
                pass


def _reply_names(text: str) -> Iterator[str]:
    """The names in the lines of a reply that list loaded tools."""
    # Only the first lines count. Below them is text from the catalog, which must not be able to
    # pretend that a tool is loaded.
    first, *rest = text.split("\n")
    if first.startswith(LOADED_LINE):
        listed = first.removeprefix(LOADED_LINE).split(" (")[0]
        yield from (name.strip() for name in listed.split(","))
        first = rest[0] if rest else ""
    if first.startswith(ALREADY_LINE):
        yield from (name.strip() for name in first.removeprefix(ALREADY_LINE).split(","))
    elif first == LOADED_HEADING:
        for line in rest:
            if not line.startswith("- "):
                return
            yield line.removeprefix("- ")


def _headings(text: str) -> Iterator[str]:
    """The start of each paragraph below the first line: where definitions have their name."""
    previous = ""
    for line in text.split("\n")[1:]:
        if not previous:
            yield line.split(": ")[0]
        previous = line


def _string_items(value: object) -> Iterator[str]:
    members = cast("list[object]", value) if isinstance(value, list) else [value]
    yield from (m for m in members if isinstance(m, str) and m)
