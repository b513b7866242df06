"""References inside a schema: where they lead, and how they are led elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from ...catalog.names import wire_name

Node = dict[str, Any]
DEFINITIONS_PREFIX = "#/$defs/"
SCHEMA_MAP_KEYWORDS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
"""Keywords that hold schemas by name."""

SCHEMA_LIST_KEYWORDS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
"""Keywords that hold several schemas."""

SCHEMA_KEYWORDS = frozenset(
    {
        "items",
        "additionalProperties",
        "not",
        "if",
        "then",
        "else",
        "contains",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords that hold one schema."""


def map_subschemas(node: Node, change: Callable[[Any], Any]) -> Node:
    """The same with every schema right inside it changed."""
    found: Node = {}
    for key, value in node.items():
        if key in SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            found[key] = {k: change(v) for k, v in cast("Node", value).items()}
        elif key in SCHEMA_LIST_KEYWORDS and isinstance(value, list):
            found[key] = [change(v) for v in cast("list[Any]", value)]
        else:
            found[key] = change(value) if key in SCHEMA_KEYWORDS else value
    return found


def resolve_reference(reference: object, whole: Node) -> object:
    """What a reference leads to inside the schema; None where that is nothing."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return whole if reference == "#" else None
    found: object = whole
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal():
            found = dict(enumerate(cast("list[object]", found))).get(int(name))
        else:
            found = cast("Node", found).get(name) if isinstance(found, dict) else None
    return found


def find_references(schema: object) -> Iterator[str]:
    """Every reference in a schema."""
    inner: list[object] = []
    if isinstance(schema, dict):
        node = cast("Node", schema)
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        map_subschemas(node, inner.append)
    for one in inner:
        yield from find_references(one)


def rewrite_references(schema: Any, change: Callable[[str], str | None]) -> Any:
    """The same with every reference led elsewhere, or nowhere."""
    if not isinstance(schema, dict):
        return schema
    node = cast("Node", schema)
    reference: object = node.get("$ref")
    if isinstance(reference, str) and (new := change(reference)) != reference:
        rest = {k: v for k, v in node.items() if k != "$ref"}
        node = rest if new is None else {"$ref": new, **rest}
    return map_subschemas(node, lambda inner: rewrite_references(inner, change))


def drop_dangling_references(schema: Node) -> Node:
    """The same without references that lead nowhere."""
    return rewrite_references(
        schema, lambda r: r if isinstance(resolve_reference(r, schema), dict | bool) else None
    )


def move_to_definitions(schema: Node) -> Node:
    """The same with references to definitions alone: what others lead to becomes one."""
    found: Node = {}

    def move(reference: str) -> str | None:
        there = resolve_reference(reference, schema)
        if (
            reference.startswith(DEFINITIONS_PREFIX)
            or not isinstance(there, dict)
            or there is schema
        ):
            return reference if reference.startswith(DEFINITIONS_PREFIX) else None
        name = wire_name(reference.removeprefix("#/"))
        if name not in found:
            found[name] = {}
            found[name] = rewrite_references(there, move)
        return f"{DEFINITIONS_PREFIX}{name}"

    now = rewrite_references(schema, move)
    return {**now, "$defs": {**now.get("$defs", {}), **found}} if found else now
