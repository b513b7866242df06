"""Detect tool formats and unwrap them: our own, OpenAI, Anthropic, Gemini and MCP.

The formats differ in the envelope around a tool and in the names of its fields. The format is seen
from the data, so nobody has to name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from ..catalog.tool import Tool, qualify_name
from ..errors import CatalogError
from .rows import TOOL_LIST_KEYS, is_tool, server_of
from .tool_parser import parse_tool

_MAX_DEPTH = 8
# In an object that maps names to tools, every value has one of these keys.
_TOOL_KEYS = frozenset({"description", "parameters", "input_schema", "inputSchema", "phrases"})


def parse_tools(value: object, *, server: str = "") -> Iterator[Tool | CatalogError]:
    """Every tool in a decoded value, or the error of one that is invalid."""
    for row in _unwrap(value, server):
        try:
            yield row if isinstance(row, CatalogError) else parse_tool(row)
        except CatalogError as error:
            yield error


def _unwrap(value: object, server: str, depth: int = 0) -> Iterator[object]:
    """The tool objects in a value, taken out of lists and envelopes."""
    if depth > _MAX_DEPTH or not isinstance(value, list | dict):
        yield value
        return
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _unwrap(item, server, depth + 1)
        return
    node = cast("dict[str, Any]", value)
    if is_tool(node):
        yield _qualify_row(node, server)
    elif (inner := _envelope_content(node)) is not None:
        yield from _unwrap(inner, server_of(node) or server, depth + 1)
    elif _is_name_map(node):
        yield from (_row_for_key(key, entry, server) for key, entry in node.items())
    else:
        yield _qualify_row(node, server)


def _envelope_content(node: dict[str, Any]) -> object:
    """The content of an envelope: its lists of tools, an MCP result, or one function."""
    lists = [node[key] for key in TOOL_LIST_KEYS if _is_tool_list(node.get(key))]
    if lists:
        return [item for rows in lists for item in rows]
    if isinstance(node.get("result"), dict):
        return node["result"]
    if isinstance(node.get("function"), dict):
        # OpenAI Chat: fields beside "function", such as "server", belong to the tool as well.
        outer = {k: v for k, v in node.items() if k not in ("function", "type")}
        return outer | node["function"]
    return None


def _is_tool_list(value: object) -> bool:
    """Whether a value is a list of tools, of which some may be invalid."""
    items = cast("list[object]", value) if isinstance(value, list) else None
    return items is not None and (not items or any(isinstance(item, dict) for item in items))


def _qualify_row(row: dict[str, Any], server: str) -> dict[str, Any]:
    name = row.get("name")
    if not server or "server" in row or not isinstance(name, str):
        return row
    return row | {"name": qualify_name(server, name), "server": server}


def _is_name_map(node: Mapping[str, Any]) -> bool:
    """Whether an object maps names to tools."""
    values: Iterable[object] = node.values()
    return (
        bool(node)
        and "name" not in node
        and all(
            isinstance(value, dict) and not _TOOL_KEYS.isdisjoint(cast("dict[str, Any]", value))
            for value in values
        )
    )


def _row_for_key(key: str, row: dict[str, Any], server: str) -> object:
    if row.get("name", key) == key:
        return _qualify_row({"name": key} | row, server)
    return CatalogError(
        f"The entry {key!r} calls itself {row['name']!r}.", hint="Make the two names one."
    )
