"""What a small part of JSON Schema can say of the rest: other words with the same meaning."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, cast

from .references import Node, map_subschemas, move_to_definitions
from .schema_upgrade import MAX_SCHEMA_DEPTH

_BESIDE_REFERENCE = frozenset({"$ref", "description"})


def reduce_schema(schema: Node, allowed: AbstractSet[str]) -> Node:
    """The schema with fewer words: one schema for what has to be all of several, a choice of one
    for a constant, and references to definitions alone."""
    return _reduce_node(move_to_definitions(schema), allowed, depth=0)


def _reduce_node(node: Node, allowed: AbstractSet[str], *, depth: int) -> Node:
    if depth > MAX_SCHEMA_DEPTH:
        return {}
    node = _merge_all_of(node) if "allOf" in node and "allOf" not in allowed else node
    if "$ref" in node and depth:
        return {k: v for k, v in node.items() if k in _BESIDE_REFERENCE}

    def schema(inner: object) -> object:
        if isinstance(inner, dict):
            return _reduce_node(cast("Node", inner), allowed, depth=depth + 1)
        return {} if isinstance(inner, bool) else inner

    said = _simplify_enum(node, allowed)
    more = said.get("additionalProperties")
    found = map_subschemas(said, schema)
    return {**found, "additionalProperties": more} if isinstance(more, bool) else found


def _merge_all_of(node: Node) -> Node:
    """One schema with what all parts say; what is said outside them goes first."""
    found = {k: v for k, v in node.items() if k != "allOf"}
    for part in cast("list[Any]", node["allOf"]):
        for key, value in cast("Node", part).items() if isinstance(part, dict) else ():
            if key == "properties" and key in found:
                found[key] = {**value, **found[key]}
            elif key == "required" and key in found:
                found[key] = [*dict.fromkeys((*found[key], *value))]
            else:
                found.setdefault(key, value)
    return _merge_all_of(found) if "allOf" in found else found


def _simplify_enum(node: Node, allowed: AbstractSet[str]) -> Node:
    """Constants as a choice of one; choices of text and numbers only, with their type."""
    if "const" in node and "const" not in allowed:
        node = {**{k: v for k, v in node.items() if k != "const"}, "enum": [node["const"]]}
    if "enum" not in node:
        return node
    values = cast("list[object]", node["enum"])
    kept = [v for v in values if isinstance(v, str | int | float) and not isinstance(v, bool)]
    rest = {k: v for k, v in node.items() if k != "enum"}
    if not kept:
        return rest
    kind = "string" if all(isinstance(v, str) for v in kept) else "number"
    is_mixed = kind == "number" and any(isinstance(v, str) for v in kept)
    return rest if is_mixed else {"type": kind, **rest, "enum": kept}
