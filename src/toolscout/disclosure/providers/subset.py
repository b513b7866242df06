"""What a small part of JSON Schema can say of the rest: other words with the same meaning."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, cast

from .modern import DEEPEST
from .references import Node, defined, mapped

_BESIDE_REFERENCE = frozenset({"$ref", "description"})


def subset(schema: Node, allowed: AbstractSet[str]) -> Node:
    """The schema with fewer words: one schema for what has to be all of several, a choice of one
    for a constant, and references to definitions alone."""
    return _node(defined(schema), allowed, depth=0)


def _node(node: Node, allowed: AbstractSet[str], *, depth: int) -> Node:
    if depth > DEEPEST:
        return {}
    node = _merged(node) if "allOf" in node and "allOf" not in allowed else node
    if "$ref" in node and depth:
        return {k: v for k, v in node.items() if k in _BESIDE_REFERENCE}

    def schema(inner: object) -> object:
        if isinstance(inner, dict):
            return _node(cast("Node", inner), allowed, depth=depth + 1)
        return {} if isinstance(inner, bool) else inner

    said = _chosen(node, allowed)
    more = said.get("additionalProperties")
    found = mapped(said, schema)
    return {**found, "additionalProperties": more} if isinstance(more, bool) else found


def _merged(node: Node) -> Node:
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
    return _merged(found) if "allOf" in found else found


def _chosen(node: Node, allowed: AbstractSet[str]) -> Node:
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
