"""Fitting a JSON Schema to what a provider takes; what it rejects is dropped, never sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from .parameter_names import to_wire_keys
from .provider import Dialect
from .references import Node, drop_dangling_references, map_subschemas, resolve_reference
from .schema_subset import reduce_schema
from .schema_upgrade import MAX_SCHEMA_DEPTH, upgrade_schema

_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_MAX_CHOICE_DEPTH = 8


def fit_schema(schema: Node, dialect: Dialect) -> Node:
    """The schema as a provider takes it."""
    if dialect.is_modern:
        schema = upgrade_schema(schema)
    if dialect.is_object:
        schema = _as_object(schema)
    if dialect.keys is not None:
        schema = to_wire_keys(schema, dialect.keys)
    if dialect.allowed is not None:
        schema = reduce_schema(schema, dialect.allowed)
    kept = _strip_keywords(schema, dialect, depth=0)
    return drop_dangling_references(kept) if dialect.is_modern else kept


def _strip_keywords(node: Node, dialect: Dialect, *, depth: int) -> Node:
    if depth > MAX_SCHEMA_DEPTH:
        return {}
    allowed = dialect.allowed
    kept = {
        key: value
        for key, value in node.items()
        if key not in dialect.rejected and (allowed is None or key in allowed)
    }

    def schema(inner: object) -> object:
        is_schema = isinstance(inner, dict)
        return (
            _strip_keywords(cast("Node", inner), dialect, depth=depth + 1) if is_schema else inner
        )

    return map_subschemas(kept, schema)


def _as_object(schema: Node) -> Node:
    """An object at the top: alternatives become one object that has the fields of all of them."""
    unsaid = (*_ALTERNATIVES, "enum", "const", "not", "$ref", "required")
    plain = {k: v for k, v in schema.items() if k not in unsaid}
    properties, needed = _collect_fields(schema, schema, depth=0)
    result: Node = {**plain, "type": "object", "properties": properties}
    kept = [n for n in needed if n in properties]
    return {**result, "required": kept} if kept else result


def _collect_fields(node: Node, whole: Node, *, depth: int) -> tuple[Node, list[str]]:
    """The properties of a schema and of all that it is made of, and which are always needed."""
    if depth > _MAX_CHOICE_DEPTH:
        return {}, []
    properties = dict(_as_node(node.get("properties")))
    needed = _string_items(node.get("required"))
    for key in ("$ref", *_ALTERNATIVES):
        found = [_collect_fields(b, whole, depth=depth + 1) for b in _branches(node, key, whole)]
        if not found:
            continue
        for fields, _ in found:
            properties = {**fields, **properties}
        every = any if key in ("$ref", "allOf") else all
        needed += [n for n in properties if every(n in a for _, a in found) and n not in needed]
    return properties, needed


def _branches(node: Node, key: str, whole: Node) -> Iterator[Node]:
    if key == "$ref":
        there = resolve_reference(node.get(key), whole)
        if isinstance(there, dict):
            yield cast("Node", there)
        return
    parts: object = node.get(key)
    for item in cast("list[object]", parts) if isinstance(parts, list) else []:
        if isinstance(item, dict):
            yield cast("Node", item)


def _as_node(value: object) -> Node:
    return cast("Node", value) if isinstance(value, dict) else {}


def _string_items(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [n for n in items if isinstance(n, str)]
