"""Upgrade a JSON Schema to draft 2020-12 and remove invalid parts.

One invalid definition makes a provider refuse the whole request. So invalid parts are repaired or
left out before a schema is sent; calls are still checked against the original schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from .references import (
    DEFINITIONS_PREFIX,
    SCHEMA_KEYWORDS,
    SCHEMA_LIST_KEYWORDS,
    SCHEMA_MAP_KEYWORDS,
    Node,
    rewrite_references,
)

# Upstream schemas may be nested without end. Below this depth anything is accepted.
MAX_SCHEMA_DEPTH = 32
_TYPES = frozenset(["string", "number", "integer", "boolean", "object", "array", "null"])
# Keywords for which None is a value and does not mean "leave out".
_NULLABLE_KEYWORDS = frozenset({"const", "default"})
_OLD_DEFINITIONS = "#/definitions/"


def upgrade_schema(schema: Node) -> Node:
    """The schema under draft 2020-12, without invalid parts."""
    upgraded = _upgrade_node(schema, depth=0)
    # Draft 7 and older call `$defs` `definitions`.
    older: Node = upgraded.pop("definitions", {})
    if not older:
        return upgraded
    moved = {**upgraded, "$defs": {**older, **upgraded.get("$defs", {})}}
    return rewrite_references(moved, lambda r: r.replace(_OLD_DEFINITIONS, DEFINITIONS_PREFIX, 1))


def _upgrade_node(node: Node, *, depth: int) -> Node:
    if depth > MAX_SCHEMA_DEPTH:
        return {}
    upgraded: Node = {}
    for key, value in _upgrade_keywords(node).items():
        cleaned = _clean_value(key, value, depth=depth)
        if cleaned is not None or key in _NULLABLE_KEYWORDS:
            upgraded[key] = cleaned
    if "array" in _type_names(upgraded):
        # Some providers refuse an array without `items`.
        upgraded.setdefault("items", {})
    return upgraded


def _clean_value(key: str, value: Any, *, depth: int) -> Any:
    """The valid form of a keyword's value; None leaves the keyword out."""
    if key in SCHEMA_KEYWORDS:
        return _upgrade_inner(value, depth=depth)
    if key in SCHEMA_MAP_KEYWORDS:
        inner = cast("Node", value) if isinstance(value, dict) else None
        return inner and {k: _upgrade_inner(v, depth=depth) for k, v in inner.items()}
    if key in SCHEMA_LIST_KEYWORDS:
        members = cast("list[Any]", value) if isinstance(value, list) else []
        return [_upgrade_inner(v, depth=depth) for v in members] or None
    return _VALUE_CLEANERS[key](value) if key in _VALUE_CLEANERS else value


def _upgrade_inner(value: object, *, depth: int) -> Any:
    """A subschema; an invalid one becomes the empty schema, which accepts anything."""
    if isinstance(value, dict):
        return _upgrade_node(cast("Node", value), depth=depth + 1)
    return value if isinstance(value, bool) else {}


def _upgrade_keywords(node: Node) -> Node:
    """The node with keywords of older drafts in their present form."""
    # Up to draft 2019-09 a list in `items` described a tuple.
    items = node.get("items")
    if isinstance(items, list):
        rest = {k: v for k, v in node.items() if k not in ("items", "additionalItems")}
        more = {"items": node["additionalItems"]} if "additionalItems" in node else {}
        node = {**rest, "prefixItems": items, **more}
    # In draft 4 an exclusive bound was a boolean beside the bound.
    for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if node.get(exclusive) is True and limit in node:
            node = {**{k: v for k, v in node.items() if k != limit}, exclusive: node[limit]}
    return node


def _type_names(node: Node) -> list[str]:
    kind: object = node.get("type")
    return cast("list[str]", kind) if isinstance(kind, list) else [str(kind)]


def _clean_type(value: object) -> object:
    if isinstance(value, list):
        kinds = [k for k in cast("list[object]", value) if isinstance(k, str) and k in _TYPES]
        return [*dict.fromkeys(kinds)] or None
    return value if isinstance(value, str) and value in _TYPES else None


def _clean_names(value: object) -> object:
    if not isinstance(value, list):
        return None
    return [*dict.fromkeys(n for n in cast("list[object]", value) if isinstance(n, str))]


def _clean_number(value: object) -> object:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _clean_count(value: object) -> object:
    # JSON libraries of other languages write counts as 1.0.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else None


def _clean_text(value: object) -> object:
    return value if isinstance(value, str) else None


def _clean_flag(value: object) -> object:
    return value if isinstance(value, bool) else None


def _clean_list(value: object) -> object:
    return cast("list[object]", value) if isinstance(value, list) and value else None


def _drop(_: object) -> object:
    return None


_VALUE_CLEANERS: Mapping[str, Callable[[object], object]] = {
    "type": _clean_type,
    "required": _clean_names,
    "enum": _clean_list,
    "examples": _clean_list,
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _clean_number
    ),
    **dict.fromkeys(
        (
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "minContains",
            "maxContains",
        ),
        _clean_count,
    ),
    **dict.fromkeys(("title", "description", "format", "pattern", "$ref"), _clean_text),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated"), _clean_flag),
    **dict.fromkeys(
        ("additionalItems", "dependencies", "dependentRequired", "$anchor", "$dynamicRef"), _drop
    ),
}
"""How the values of keywords are cleaned; None leaves a keyword out."""
