"""Tools out of decoded values, whichever of the known shapes they have.

Our own rows, OpenAI Chat and Responses (namespaces too), Anthropic, Gemini and MCP differ in what
they wrap a tool in and what they call its parts; nobody has to say which one a file holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from ...errors import CatalogError
from ..names import qualified
from ..tool import Tool
from .border import tool_from
from .envelope import LISTS, is_tool, server_of

_DEEPEST = 8
_TELLING = frozenset({"description", "parameters", "input_schema", "inputSchema", "phrases"})


def tools_in(value: object, *, server: str = "") -> Iterator[Tool | CatalogError]:
    """Every tool that a decoded value holds, or why one of them is none."""
    for row in _unwrapped(value, server):
        try:
            yield row if isinstance(row, CatalogError) else tool_from(row)
        except CatalogError as error:
            yield error


def _unwrapped(value: object, server: str, depth: int = 0) -> Iterator[object]:
    """Plain rows, taken out of whatever lists and envelopes they come in."""
    if depth > _DEEPEST or not isinstance(value, list | dict):
        yield value
        return
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _unwrapped(item, server, depth + 1)
        return
    node = cast("dict[str, Any]", value)
    if is_tool(node):
        yield _in_server(node, server)
    elif (inner := _inner(node)) is not None:
        yield from _unwrapped(inner, server_of(node) or server, depth + 1)
    elif _is_keyed(node):
        yield from (_named(key, entry, server) for key, entry in node.items())
    else:
        yield _in_server(node, server)


def _inner(node: dict[str, Any]) -> object:
    """What an envelope holds: lists of tools, a reply, or one function."""
    lists = [node[key] for key in LISTS if _is_rows(node.get(key))]
    if lists:
        return [item for rows in lists for item in rows]
    if isinstance(node.get("result"), dict):
        return node["result"]
    if isinstance(node.get("function"), dict):
        outer = {k: v for k, v in node.items() if k not in ("function", "type")}
        return outer | node["function"]
    return None


def _is_rows(value: object) -> bool:
    """Whether this is a list of tools, though some of its items may be none."""
    items = cast("list[object]", value) if isinstance(value, list) else None
    return items is not None and (not items or any(isinstance(item, dict) for item in items))


def _in_server(row: dict[str, Any], server: str) -> dict[str, Any]:
    name = row.get("name")
    if not server or "server" in row or not isinstance(name, str):
        return row
    return row | {"name": qualified(server, name), "server": server}


def _is_keyed(node: Mapping[str, Any]) -> bool:
    """Whether this maps names to tools."""
    inner: Iterable[object] = node.values()
    return (
        bool(node)
        and "name" not in node
        and all(
            isinstance(i, dict) and not _TELLING.isdisjoint(cast("dict[str, Any]", i))
            for i in inner
        )
    )


def _named(key: str, inner: dict[str, Any], server: str) -> object:
    if inner.get("name", key) == key:
        return _in_server({"name": key} | inner, server)
    return CatalogError(
        f"The entry {key!r} calls itself {inner['name']!r}.", hint="Make the two names one."
    )
