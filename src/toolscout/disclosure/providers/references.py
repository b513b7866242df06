"""Walk a JSON Schema, and resolve, rewrite or drop the references in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from ...catalog.tool import wire_name

Node = dict[str, Any]
"""One schema, or a part of one."""

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


def properties_of(node: Node) -> Node:
    """The properties of an object schema; empty if it has none."""
    properties: object = node.get("properties")
    return cast("Node", properties) if isinstance(properties, dict) else {}


def map_subschemas(node: Node, change: Callable[[Any], Any]) -> Node:
    """The schema with `change` applied to each direct subschema."""
    # By keyword, because the values of `default`, `enum` or `examples` are data and may look
    # like schemas.
    result: Node = {}
    for key, value in node.items():
        if key in SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            result[key] = {k: change(v) for k, v in cast("Node", value).items()}
        elif key in SCHEMA_LIST_KEYWORDS and isinstance(value, list):
            result[key] = [change(v) for v in cast("list[Any]", value)]
        else:
            result[key] = change(value) if key in SCHEMA_KEYWORDS else value
    return result


def resolve_reference(reference: object, root: Node) -> object:
    """The target of a reference inside the schema; None if there is none."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return root if reference == "#" else None
    target: object = root
    for part in reference[2:].split("/"):
        # The escapes of a JSON Pointer; `~1` first, or `~01` would become a slash.
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and name.isdecimal():
            target = dict(enumerate(cast("list[object]", target))).get(int(name))
        else:
            target = cast("Node", target).get(name) if isinstance(target, dict) else None
    return target


def find_references(schema: object) -> Iterator[str]:
    """Every reference in a schema."""
    subschemas: list[object] = []
    if isinstance(schema, dict):
        node = cast("Node", schema)
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        map_subschemas(node, subschemas.append)
    for subschema in subschemas:
        yield from find_references(subschema)


def rewrite_references(schema: Any, change: Callable[[str], str | None]) -> Any:
    """The schema with every reference replaced by what `change` returns; None drops it."""
    if not isinstance(schema, dict):
        return schema
    node = cast("Node", schema)
    reference: object = node.get("$ref")
    if isinstance(reference, str) and (new := change(reference)) != reference:
        rest = {k: v for k, v in node.items() if k != "$ref"}
        node = rest if new is None else {"$ref": new, **rest}
    return map_subschemas(node, lambda inner: rewrite_references(inner, change))


def drop_dangling_references(schema: Node) -> Node:
    """The schema without references that have no target."""
    return rewrite_references(
        schema, lambda r: r if isinstance(resolve_reference(r, schema), dict | bool) else None
    )


def move_to_definitions(schema: Node) -> Node:
    """The schema with references to `$defs` only; other targets are copied there."""
    moved: Node = {}

    def move(reference: str) -> str | None:
        if reference.startswith(DEFINITIONS_PREFIX):
            return reference
        target = resolve_reference(reference, schema)
        # A reference to the whole schema is dropped: a definition of it would contain itself.
        if not isinstance(target, dict) or target is schema:
            return None
        name = wire_name(reference.removeprefix("#/"))
        if name not in moved:
            # Set before the descent, so that a target that refers to itself ends here.
            moved[name] = {}
            moved[name] = rewrite_references(target, move)
        return f"{DEFINITIONS_PREFIX}{name}"

    rewritten = rewrite_references(schema, move)
    if not moved:
        return rewritten
    return {**rewritten, "$defs": {**rewritten.get("$defs", {}), **moved}}
