"""Schemas that a provider holds a model to word for word."""

from __future__ import annotations

from typing import Any, cast

from .modern import DEEPEST
from .provider import Strict
from .references import DEFINITIONS, Node, mapped, references

_SAYS_WHAT = frozenset({"type", "anyOf", "enum", "const", "$ref"})


def tighten(schema: Node, strict: Strict) -> Node | None:
    """The schema for strict mode, or None where it says something strict mode cannot."""
    if not strict.may_recur and _recurs(schema):
        return None
    try:
        return _tight(schema, strict, depth=0)
    except _CannotBeStrict:
        return None


class _CannotBeStrict(Exception):
    """A part of the schema is open-ended."""


def _tight(node: Node, strict: Strict, *, depth: int) -> Node:
    if depth > DEEPEST:
        raise _CannotBeStrict
    if "$ref" in node:
        return {"$ref": _local(node["$ref"])}
    changed = _inner(_plain(node), strict, depth=depth)
    if not _SAYS_WHAT & changed.keys():
        raise _CannotBeStrict
    if changed.get("type") != "object" and "properties" not in changed:
        return changed
    return _closed(node, changed, strict, depth=depth)


def _plain(node: Node) -> Node:
    """The same with one word for alternatives; what has to be all of several cannot be strict."""
    parts: list[Any] = node.get("allOf", [])
    if len(parts) > 1 or "prefixItems" in node:
        raise _CannotBeStrict
    rest = {k: v for k, v in node.items() if k not in ("allOf", "oneOf")}
    if "oneOf" in node:
        rest.setdefault("anyOf", node["oneOf"])
    return {**parts[0], **rest} if parts and isinstance(parts[0], dict) else rest


def _inner(node: Node, strict: Strict, *, depth: int) -> Node:
    kept = {key: value for key, value in node.items() if _is_known(key, value, strict)}

    def schema(inner: object) -> Node:
        if not isinstance(inner, dict):
            raise _CannotBeStrict
        return _tight(cast("Node", inner), strict, depth=depth + 1)

    return mapped(kept, schema)


def _is_known(key: str, value: Any, strict: Strict) -> bool:
    """Whether strict mode has this; what it has not is still checked when the tool is called."""
    if key in strict.rejected or key == "additionalProperties":
        return False
    if key == "format":
        return value in strict.formats
    return key != "minItems" or strict.most_least is None or value <= strict.most_least


def _closed(node: Node, changed: Node, strict: Strict, *, depth: int) -> Node:
    """An object that has just these properties."""
    if node.get("additionalProperties") not in (None, False) or "patternProperties" in node:
        raise _CannotBeStrict
    properties: Node = changed.get("properties", {})
    if not properties and depth:
        raise _CannotBeStrict
    closed = {**changed, "additionalProperties": False, "properties": properties}
    if not strict.all_required:
        return closed
    needed = set(cast("list[str]", changed.get("required", [])))
    said = {k: v if k in needed else _nullable(v) for k, v in properties.items()}
    return {**closed, "properties": said, "required": [*properties]}


def _nullable(schema: Node) -> Node:
    kind: object = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else cast("list[str]", kind or [])
    if not kinds or "enum" in schema or "const" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}


def _local(reference: str) -> str:
    if reference != "#" and not reference.startswith(DEFINITIONS):
        raise _CannotBeStrict
    return reference


def _recurs(schema: Node) -> bool:
    """Whether a definition leads back to itself."""
    definitions: Node = schema.get("$defs", {})
    links = {f"{DEFINITIONS}{name}": {*references(d)} for name, d in definitions.items()}
    links["#"] = {*references({k: v for k, v in schema.items() if k != "$defs"})}
    for _ in range(len(links).bit_length()):
        links = {name: to.union(*(links.get(t, ()) for t in to)) for name, to in links.items()}
    return any(name in to for name, to in links.items())
