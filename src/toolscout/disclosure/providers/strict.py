"""Convert schemas to strict mode, where the provider guarantees valid arguments."""

from __future__ import annotations

from typing import Any, cast

from .provider import StrictMode
from .references import DEFINITIONS_PREFIX, Node, find_references, map_subschemas
from .schema_upgrade import MAX_SCHEMA_DEPTH

_TYPE_KEYWORDS = frozenset({"type", "anyOf", "enum", "const", "$ref"})


def tighten_schema(schema: Node, strict: StrictMode) -> Node | None:
    """The schema for strict mode, or None if strict mode cannot express it."""
    if not strict.may_recur and _is_recursive(schema):
        return None
    try:
        return _tighten_node(schema, strict, depth=0)
    except _NotStrictError:
        return None


class _NotStrictError(Exception):
    """A part of the schema cannot be expressed in strict mode."""


def _tighten_node(node: Node, strict: StrictMode, *, depth: int) -> Node:
    if depth > MAX_SCHEMA_DEPTH:
        raise _NotStrictError
    if "$ref" in node:
        return {"$ref": _check_reference(node["$ref"])}
    tightened = _tighten_inner(_unify_alternatives(node), strict, depth=depth)
    # A schema without a type accepts anything, which no grammar can enforce.
    if not _TYPE_KEYWORDS & tightened.keys():
        raise _NotStrictError
    if tightened.get("type") != "object" and "properties" not in tightened:
        return tightened
    return _close_object(node, tightened, strict, depth=depth)


def _unify_alternatives(node: Node) -> Node:
    """The node with `anyOf` for all alternatives; several schemas in `allOf` are not strict."""
    parts: list[Any] = node.get("allOf", [])
    if len(parts) > 1 or "prefixItems" in node:
        raise _NotStrictError
    rest = {k: v for k, v in node.items() if k not in ("allOf", "oneOf")}
    if "oneOf" in node:
        rest.setdefault("anyOf", node["oneOf"])
    return {**parts[0], **rest} if parts and isinstance(parts[0], dict) else rest


def _tighten_inner(node: Node, strict: StrictMode, *, depth: int) -> Node:
    supported = {key: value for key, value in node.items() if _is_supported(key, value, strict)}

    def tighten(inner: object) -> Node:
        if not isinstance(inner, dict):
            raise _NotStrictError
        return _tighten_node(cast("Node", inner), strict, depth=depth + 1)

    return map_subschemas(supported, tighten)


def _is_supported(key: str, value: Any, strict: StrictMode) -> bool:
    """Whether strict mode has a keyword with this value."""
    # Dropping a constraint is safe: the call is checked against the original schema.
    if key in strict.rejected or key == "additionalProperties":
        return False
    if key == "format":
        return value in strict.formats
    return key != "minItems" or strict.max_min_items is None or value <= strict.max_min_items


def _close_object(node: Node, tightened: Node, strict: StrictMode, *, depth: int) -> Node:
    """An object with exactly these properties."""
    if node.get("additionalProperties") not in (None, False) or "patternProperties" in node:
        raise _NotStrictError
    properties: Node = tightened.get("properties", {})
    # A nested object without properties is a free-form map. At the top it is a tool without
    # parameters.
    if not properties and depth:
        raise _NotStrictError
    closed = {**tightened, "additionalProperties": False, "properties": properties}
    if not strict.all_required:
        return closed
    required = set(cast("list[str]", tightened.get("required", [])))
    nullable = {k: v if k in required else _make_nullable(v) for k, v in properties.items()}
    return {**closed, "properties": nullable, "required": [*properties]}


def _make_nullable(schema: Node) -> Node:
    kind: object = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else cast("list[str]", kind or [])
    # An enum would have to contain null as well, so it becomes one of two alternatives.
    if not kinds or "enum" in schema or "const" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}


def _check_reference(reference: str) -> str:
    if reference != "#" and not reference.startswith(DEFINITIONS_PREFIX):
        raise _NotStrictError
    return reference


def _is_recursive(schema: Node) -> bool:
    """Whether a definition refers to itself, directly or through others."""
    definitions: Node = schema.get("$defs", {})
    links = {
        f"{DEFINITIONS_PREFIX}{name}": {*find_references(d)} for name, d in definitions.items()
    }
    links["#"] = {*find_references({k: v for k, v in schema.items() if k != "$defs"})}
    # The transitive closure by squaring: each round doubles the length of the paths that are
    # covered, so log2(n) rounds are enough for n definitions.
    for _ in range(len(links).bit_length()):
        links = {
            name: targets.union(*(links.get(t, ()) for t in targets))
            for name, targets in links.items()
        }
    return any(name in targets for name, targets in links.items())
