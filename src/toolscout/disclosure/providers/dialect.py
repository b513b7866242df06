"""Fitting a JSON Schema to what a provider takes; what it rejects is dropped, never sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from .provider import Dialect, Strict

_Node = dict[str, Any]
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LITERAL = frozenset({"enum", "const", "default", "examples", "required", "dependentRequired"})
_DEEPEST = 32


def fit(schema: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    """The schema as a provider takes it."""
    kept = _strip(schema, dialect, depth=0)
    return _object(kept, schema) if dialect.is_object else kept


def tighten(schema: dict[str, Any], strict: Strict) -> dict[str, Any] | None:
    """The schema for strict mode, or None where it says something strict mode cannot."""
    try:
        return _tight(schema, strict, depth=0)
    except _CannotBeStrict:
        return None


class _CannotBeStrict(Exception):
    """A part of the schema is open-ended."""


def _strip(node: dict[str, Any], dialect: Dialect, *, depth: int) -> dict[str, Any]:
    if depth > _DEEPEST:
        return {}
    kept: dict[str, Any] = {}
    for key, value in node.items():
        if key in dialect.rejected or (dialect.allowed is not None and key not in dialect.allowed):
            continue
        kept[key] = _descend(key, value, lambda n: _strip(n, dialect, depth=depth + 1))
    return kept


def _descend(key: str, value: Any, change: Callable[[_Node], _Node]) -> Any:
    """Apply a change to the schemas inside a keyword's value, and to nothing that only looks so."""
    if key in _LITERAL:
        return value
    if isinstance(value, dict):
        inside = cast("dict[str, Any]", value)
        if key in _MAPS:
            return {k: _change(v, change) for k, v in inside.items()}
        return change(inside)
    if isinstance(value, list):
        members = cast("list[Any]", value)
        return [_change(v, change) for v in members]
    return value


def _change(value: Any, change: Callable[[_Node], _Node]) -> Any:
    return change(cast("_Node", value)) if isinstance(value, dict) else value


def _object(schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """An object at the top: alternatives become one object that has the fields of all of them."""
    plain = {k: v for k, v in schema.items() if k not in (*_ALTERNATIVES, "enum", "not")}
    properties = dict(_mapping(schema.get("properties")))
    needed = _names(schema.get("required"))
    for key in _ALTERNATIVES:
        branches = [_resolved(b, whole) for b in _branches(schema.get(key))]
        if not branches:
            continue
        for branch in branches:
            properties = {**_mapping(branch.get("properties")), **properties}
        asked = [_names(b.get("required")) for b in branches]
        every = any if key == "allOf" else all
        needed += [n for n in properties if every(n in a for a in asked) and n not in needed]
    result: dict[str, Any] = {**plain, "type": "object", "properties": properties}
    result.pop("required", None)
    kept = [n for n in needed if n in properties]
    return {**result, "required": kept} if kept else result


def _resolved(node: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return node
    target: object = whole
    for part in reference[2:].split("/"):
        target = _mapping(target).get(part.replace("~1", "/").replace("~0", "~"))
    return _mapping(target)


def _tight(node: dict[str, Any], strict: Strict, *, depth: int) -> dict[str, Any]:
    if depth > _DEEPEST:
        raise _CannotBeStrict
    kept = {k: v for k, v in node.items() if k not in strict.rejected}
    changed = {
        k: _descend(k, v, lambda n: _tight(n, strict, depth=depth + 1))
        for k, v in kept.items()
        if k != "additionalProperties"
    }
    if node.get("type") != "object" and "properties" not in node:
        return changed
    if node.get("additionalProperties") not in (None, False) or "patternProperties" in node:
        raise _CannotBeStrict
    properties = _mapping(changed.get("properties"))
    if not properties and depth:
        raise _CannotBeStrict
    changed["additionalProperties"] = False
    changed["properties"] = properties
    if strict.all_required:
        needed = set(_names(node.get("required")))
        changed["properties"] = {
            k: v if k in needed else _nullable(_mapping(v)) for k, v in properties.items()
        }
        changed["required"] = [*properties]
    return changed


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    kind: object = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else _names(kind)
    if not kinds or "enum" in schema or "const" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _names(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [n for n in items if isinstance(n, str)]


def _branches(value: object) -> Iterator[dict[str, Any]]:
    for item in cast("list[object]", value) if isinstance(value, list) else []:
        if isinstance(item, dict):
            yield cast("dict[str, Any]", item)
