"""Fitting a JSON Schema to what a provider takes; what it rejects is dropped, never sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from .keys import with_sent_keys
from .modern import DEEPEST, modern
from .provider import Dialect
from .references import Node, linked, mapped, target
from .subset import subset

_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_DEEPEST_CHOICE = 8


def fit(schema: Node, dialect: Dialect) -> Node:
    """The schema as a provider takes it."""
    if dialect.is_modern:
        schema = modern(schema)
    if dialect.is_object:
        schema = _object(schema)
    if dialect.keys is not None:
        schema = with_sent_keys(schema, dialect.keys)
    if dialect.allowed is not None:
        schema = subset(schema, dialect.allowed)
    kept = _strip(schema, dialect, depth=0)
    return linked(kept) if dialect.is_modern else kept


def _strip(node: Node, dialect: Dialect, *, depth: int) -> Node:
    if depth > DEEPEST:
        return {}
    allowed = dialect.allowed
    kept = {
        key: value
        for key, value in node.items()
        if key not in dialect.rejected and (allowed is None or key in allowed)
    }

    def schema(inner: object) -> object:
        is_schema = isinstance(inner, dict)
        return _strip(cast("Node", inner), dialect, depth=depth + 1) if is_schema else inner

    return mapped(kept, schema)


def _object(schema: Node) -> Node:
    """An object at the top: alternatives become one object that has the fields of all of them."""
    unsaid = (*_ALTERNATIVES, "enum", "const", "not", "$ref", "required")
    plain = {k: v for k, v in schema.items() if k not in unsaid}
    properties, needed = _fields(schema, schema, depth=0)
    result: Node = {**plain, "type": "object", "properties": properties}
    kept = [n for n in needed if n in properties]
    return {**result, "required": kept} if kept else result


def _fields(node: Node, whole: Node, *, depth: int) -> tuple[Node, list[str]]:
    """The properties of a schema and of all that it is made of, and which are always needed."""
    if depth > _DEEPEST_CHOICE:
        return {}, []
    properties = dict(_mapping(node.get("properties")))
    needed = _names(node.get("required"))
    for key in ("$ref", *_ALTERNATIVES):
        found = [_fields(b, whole, depth=depth + 1) for b in _branches(node, key, whole)]
        if not found:
            continue
        for fields, _ in found:
            properties = {**fields, **properties}
        every = any if key in ("$ref", "allOf") else all
        needed += [n for n in properties if every(n in a for _, a in found) and n not in needed]
    return properties, needed


def _branches(node: Node, key: str, whole: Node) -> Iterator[Node]:
    if key == "$ref":
        there = target(node.get(key), whole)
        if isinstance(there, dict):
            yield cast("Node", there)
        return
    parts: object = node.get(key)
    for item in cast("list[object]", parts) if isinstance(parts, list) else []:
        if isinstance(item, dict):
            yield cast("Node", item)


def _mapping(value: object) -> Node:
    return cast("Node", value) if isinstance(value, dict) else {}


def _names(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [n for n in items if isinstance(n, str)]
