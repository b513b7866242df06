"""Schemas that a provider holds a model to word for word."""

from __future__ import annotations

from typing import Any, cast

from .provider import StrictMode
from .references import DEFINITIONS_PREFIX, Node, find_references, map_subschemas
from .schema_upgrade import MAX_SCHEMA_DEPTH

_TYPE_KEYWORDS = frozenset({"type", "anyOf", "enum", "const", "$ref"})


def tighten_schema(schema: Node, strict: StrictMode) -> Node | None:
    """The schema for strict mode, or None where it says something strict mode cannot."""
    if not strict.may_recur and _is_recursive(schema):
        return None
    try:
        return _tighten_node(schema, strict, depth=0)
    except _NotStrict:
        return None


class _NotStrict(Exception):
    """A part of the schema is open-ended."""


def _tighten_node(node: Node, strict: StrictMode, *, depth: int) -> Node:
    if depth > MAX_SCHEMA_DEPTH:
        raise _NotStrict
    if "$ref" in node:
        return {"$ref": _check_reference(node["$ref"])}
    changed = _tighten_inner(_unify_alternatives(node), strict, depth=depth)
    if not _TYPE_KEYWORDS & changed.keys():
        raise _NotStrict
    if changed.get("type") != "object" and "properties" not in changed:
        return changed
    return _close_object(node, changed, strict, depth=depth)


def _unify_alternatives(node: Node) -> Node:
    """The same with one word for alternatives; what has to be all of several cannot be strict."""
    parts: list[Any] = node.get("allOf", [])
    if len(parts) > 1 or "prefixItems" in node:
        raise _NotStrict
    rest = {k: v for k, v in node.items() if k not in ("allOf", "oneOf")}
    if "oneOf" in node:
        rest.setdefault("anyOf", node["oneOf"])
    return {**parts[0], **rest} if parts and isinstance(parts[0], dict) else rest


def _tighten_inner(node: Node, strict: StrictMode, *, depth: int) -> Node:
    kept = {key: value for key, value in node.items() if _is_supported(key, value, strict)}

    def schema(inner: object) -> Node:
        if not isinstance(inner, dict):
            raise _NotStrict
        return _tighten_node(cast("Node", inner), strict, depth=depth + 1)

    return map_subschemas(kept, schema)


def _is_supported(key: str, value: Any, strict: StrictMode) -> bool:
    """Whether strict mode has this; what it has not is still checked when the tool is called."""
    if key in strict.rejected or key == "additionalProperties":
        return False
    if key == "format":
        return value in strict.formats
    return key != "minItems" or strict.most_least is None or value <= strict.most_least


def _close_object(node: Node, changed: Node, strict: StrictMode, *, depth: int) -> Node:
    """An object that has just these properties."""
    if node.get("additionalProperties") not in (None, False) or "patternProperties" in node:
        raise _NotStrict
    properties: Node = changed.get("properties", {})
    if not properties and depth:
        raise _NotStrict
    closed = {**changed, "additionalProperties": False, "properties": properties}
    if not strict.all_required:
        return closed
    needed = set(cast("list[str]", changed.get("required", [])))
    said = {k: v if k in needed else _make_nullable(v) for k, v in properties.items()}
    return {**closed, "properties": said, "required": [*properties]}


def _make_nullable(schema: Node) -> Node:
    kind: object = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else cast("list[str]", kind or [])
    if not kinds or "enum" in schema or "const" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}


def _check_reference(reference: str) -> str:
    if reference != "#" and not reference.startswith(DEFINITIONS_PREFIX):
        raise _NotStrict
    return reference


def _is_recursive(schema: Node) -> bool:
    """Whether a definition leads back to itself."""
    definitions: Node = schema.get("$defs", {})
    links = {
        f"{DEFINITIONS_PREFIX}{name}": {*find_references(d)} for name, d in definitions.items()
    }
    links["#"] = {*find_references({k: v for k, v in schema.items() if k != "$defs"})}
    for _ in range(len(links).bit_length()):
        links = {name: to.union(*(links.get(t, ()) for t in to)) for name, to in links.items()}
    return any(name in to for name, to in links.items())
