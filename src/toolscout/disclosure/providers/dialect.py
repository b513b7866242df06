"""Fit a JSON Schema to what a provider accepts; what it rejects is rewritten or dropped."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, cast

from .parameter_names import to_wire_keys
from .provider import Dialect
from .references import (
    Node,
    drop_dangling_references,
    map_subschemas,
    move_to_definitions,
    properties_of,
    resolve_reference,
)
from .schema_upgrade import MAX_SCHEMA_DEPTH, upgrade_schema

_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
# The depth to which alternatives and references at the top are merged into one object. References
# may form a cycle, so there must be a bound.
_MAX_CHOICE_DEPTH = 8
_BESIDE_REFERENCE = frozenset({"$ref", "description"})


def fit_schema(schema: Node, dialect: Dialect) -> Node:
    """The schema in a provider's dialect."""
    # The order matters: older drafts are upgraded before anything reads their keywords, and
    # references are dropped last, because each step may remove what they point to.
    if dialect.is_modern:
        schema = upgrade_schema(schema)
    if dialect.is_object:
        schema = _as_object(schema)
    if dialect.keys is not None:
        schema = to_wire_keys(schema, dialect.keys)
    if dialect.allowed is not None:
        schema = _reduce_node(move_to_definitions(schema), dialect.allowed, depth=0)
    fitted = _strip_keywords(schema, dialect, depth=0)
    return drop_dangling_references(fitted) if dialect.is_modern else fitted


def _strip_keywords(node: Node, dialect: Dialect, *, depth: int) -> Node:
    if depth > MAX_SCHEMA_DEPTH:
        return {}
    allowed = dialect.allowed
    # Only keywords are dropped. A property that has the name of a keyword stays, because
    # `map_subschemas` descends into `properties` by value.
    supported = {
        key: value
        for key, value in node.items()
        if key not in dialect.rejected and (allowed is None or key in allowed)
    }

    def strip(inner: object) -> object:
        if not isinstance(inner, dict):
            return inner
        return _strip_keywords(cast("Node", inner), dialect, depth=depth + 1)

    return map_subschemas(supported, strip)


def _as_object(schema: Node) -> Node:
    """The schema as an object with the fields of all its alternatives."""
    # OpenAI and Anthropic refuse alternatives and references at the top level. The call is
    # checked against the original schema.
    dropped = (*_ALTERNATIVES, "enum", "const", "not", "$ref", "required")
    rest = {k: v for k, v in schema.items() if k not in dropped}
    properties, required = _collect_fields(schema, schema, depth=0)
    result: Node = {**rest, "type": "object", "properties": properties}
    known = [n for n in required if n in properties]
    return {**result, "required": known} if known else result


def _collect_fields(node: Node, root: Node, *, depth: int) -> tuple[Node, list[str]]:
    """The properties of a schema and of its parts, and the names that are always required."""
    if depth > _MAX_CHOICE_DEPTH:
        return {}, []
    properties = dict(properties_of(node))
    required = _string_items(node.get("required"))
    for key in ("$ref", *_ALTERNATIVES):
        parts = [_collect_fields(b, root, depth=depth + 1) for b in _branches(node, key, root)]
        if not parts:
            continue
        for fields, _ in parts:
            properties = {**fields, **properties}
        # All parts of allOf apply, so one that requires a name is enough. Of alternatives only
        # one applies, so a name is required only if every alternative requires it.
        quantifier = any if key in ("$ref", "allOf") else all
        required += [
            n
            for n in properties
            if quantifier(n in names for _, names in parts) and n not in required
        ]
    return properties, required


def _branches(node: Node, key: str, root: Node) -> Iterator[Node]:
    if key == "$ref":
        target = resolve_reference(node.get(key), root)
        if isinstance(target, dict):
            yield cast("Node", target)
        return
    parts: object = node.get(key)
    for item in cast("list[object]", parts) if isinstance(parts, list) else []:
        if isinstance(item, dict):
            yield cast("Node", item)


def _string_items(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [n for n in items if isinstance(n, str)]


def _reduce_node(node: Node, allowed: AbstractSet[str], *, depth: int) -> Node:
    """Rewrite keywords that a small dialect lacks in terms of those it has."""
    if depth > MAX_SCHEMA_DEPTH:
        return {}
    node = _merge_all_of(node) if "allOf" in node and "allOf" not in allowed else node
    # Gemini restricts what may stand beside a reference, so only the description stays.
    if "$ref" in node and depth:
        return {k: v for k, v in node.items() if k in _BESIDE_REFERENCE}

    def reduce(inner: object) -> object:
        if isinstance(inner, dict):
            return _reduce_node(cast("Node", inner), allowed, depth=depth + 1)
        # A small dialect has no boolean schemas. The empty schema accepts anything.
        return {} if isinstance(inner, bool) else inner

    simple = _simplify_enum(node, allowed)
    additional = simple.get("additionalProperties")
    reduced = map_subschemas(simple, reduce)
    # Here a boolean is allowed, so it is put back.
    is_boolean = isinstance(additional, bool)
    return {**reduced, "additionalProperties": additional} if is_boolean else reduced


def _merge_all_of(node: Node) -> Node:
    """One schema with the keywords of all parts; those outside the parts win."""
    merged = {k: v for k, v in node.items() if k != "allOf"}
    for part in cast("list[Any]", node["allOf"]):
        for key, value in cast("Node", part).items() if isinstance(part, dict) else ():
            if key == "properties" and key in merged:
                merged[key] = {**value, **merged[key]}
            elif key == "required" and key in merged:
                merged[key] = [*dict.fromkeys((*merged[key], *value))]
            else:
                merged.setdefault(key, value)
    return _merge_all_of(merged) if "allOf" in merged else merged


def _simplify_enum(node: Node, allowed: AbstractSet[str]) -> Node:
    """Write constants as an enum of one; keep only strings and numbers, with their type."""
    if "const" in node and "const" not in allowed:
        node = {**{k: v for k, v in node.items() if k != "const"}, "enum": [node["const"]]}
    if "enum" not in node:
        return node
    values = cast("list[object]", node["enum"])
    scalars = [v for v in values if isinstance(v, str | int | float) and not isinstance(v, bool)]
    rest = {k: v for k, v in node.items() if k != "enum"}
    if not scalars:
        return rest
    kind = "string" if all(isinstance(v, str) for v in scalars) else "number"
    is_mixed = kind == "number" and any(isinstance(v, str) for v in scalars)
    return rest if is_mixed else {"type": kind, **rest, "enum": scalars}
