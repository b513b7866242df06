"""A JSON Schema in today's words: what older drafts said otherwise, and what is no schema, mended.

One flawed definition makes a provider refuse the whole request. So what it would stumble over is
put right or left out before it is sent; calls are still checked against the schema as it came.
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

MAX_SCHEMA_DEPTH = 32
_TYPES = frozenset(["string", "number", "integer", "boolean", "object", "array", "null"])
_ANYTHING = frozenset({"const", "default"})
_OLD_DEFINITIONS = "#/definitions/"


def upgrade_schema(schema: Node) -> Node:
    """The schema by the draft of 2020-12, with nothing in it that is not one."""
    found = _upgrade_node(schema, depth=0)
    older: Node = found.pop("definitions", {})
    if not older:
        return found
    moved = {**found, "$defs": {**older, **found.get("$defs", {})}}
    return rewrite_references(moved, lambda r: r.replace(_OLD_DEFINITIONS, DEFINITIONS_PREFIX, 1))


def _upgrade_node(node: Node, *, depth: int) -> Node:
    if depth > MAX_SCHEMA_DEPTH:
        return {}
    found: Node = {}
    for key, value in _upgrade_keywords(node).items():
        kept = _clean_value(key, value, depth=depth)
        if kept is not None or key in _ANYTHING:
            found[key] = kept
    if "array" in _type_names(found):
        # Some providers refuse a list that does not say what is in it.
        found.setdefault("items", {})
    return found


def _clean_value(key: str, value: Any, *, depth: int) -> Any:
    """The value of a keyword as it should be; None leaves the keyword out."""
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
    """A schema inside a schema; what is none says nothing."""
    if isinstance(value, dict):
        return _upgrade_node(cast("Node", value), depth=depth + 1)
    return value if isinstance(value, bool) else {}


def _upgrade_keywords(node: Node) -> Node:
    """The same with what former drafts wrote in another way."""
    items = node.get("items")
    if isinstance(items, list):
        rest = {k: v for k, v in node.items() if k not in ("items", "additionalItems")}
        more = {"items": node["additionalItems"]} if "additionalItems" in node else {}
        node = {**rest, "prefixItems": items, **more}
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
"""How the values of keywords are read; None leaves one out."""
