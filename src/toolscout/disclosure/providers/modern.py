"""A JSON Schema in today's words: what older drafts said otherwise, and what is no schema, mended.

One flawed definition makes a provider refuse the whole request. So what it would stumble over is
put right or left out before it is sent; calls are still checked against the schema as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from .references import DEFINITIONS, LISTS, MAPS, SCHEMAS, Node, led

DEEPEST = 32
_TYPES = frozenset(["string", "number", "integer", "boolean", "object", "array", "null"])
_ANYTHING = frozenset({"const", "default"})
_FORMER = "#/definitions/"


def modern(schema: Node) -> Node:
    """The schema by the draft of 2020-12, with nothing in it that is not one."""
    found = _node(schema, depth=0)
    older: Node = found.pop("definitions", {})
    if not older:
        return found
    moved = {**found, "$defs": {**older, **found.get("$defs", {})}}
    return led(moved, lambda r: r.replace(_FORMER, DEFINITIONS, 1))


def _node(node: Node, *, depth: int) -> Node:
    if depth > DEEPEST:
        return {}
    found: Node = {}
    for key, value in _renewed(node).items():
        kept = _read(key, value, depth=depth)
        if kept is not None or key in _ANYTHING:
            found[key] = kept
    if "array" in _kinds(found):
        # Some providers refuse a list that does not say what is in it.
        found.setdefault("items", {})
    return found


def _read(key: str, value: Any, *, depth: int) -> Any:
    """The value of a keyword as it should be; None leaves the keyword out."""
    if key in SCHEMAS:
        return _schema(value, depth=depth)
    if key in MAPS:
        inner = cast("Node", value) if isinstance(value, dict) else None
        return inner and {k: _schema(v, depth=depth) for k, v in inner.items()}
    if key in LISTS:
        members = cast("list[Any]", value) if isinstance(value, list) else []
        return [_schema(v, depth=depth) for v in members] or None
    return _VALUES[key](value) if key in _VALUES else value


def _schema(value: object, *, depth: int) -> Any:
    """A schema inside a schema; what is none says nothing."""
    if isinstance(value, dict):
        return _node(cast("Node", value), depth=depth + 1)
    return value if isinstance(value, bool) else {}


def _renewed(node: Node) -> Node:
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


def _kinds(node: Node) -> list[str]:
    kind: object = node.get("type")
    return cast("list[str]", kind) if isinstance(kind, list) else [str(kind)]


def _type(value: object) -> object:
    if isinstance(value, list):
        kinds = [k for k in cast("list[object]", value) if isinstance(k, str) and k in _TYPES]
        return [*dict.fromkeys(kinds)] or None
    return value if isinstance(value, str) and value in _TYPES else None


def _names(value: object) -> object:
    if not isinstance(value, list):
        return None
    return [*dict.fromkeys(n for n in cast("list[object]", value) if isinstance(n, str))]


def _number(value: object) -> object:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else None


def _text(value: object) -> object:
    return value if isinstance(value, str) else None


def _flag(value: object) -> object:
    return value if isinstance(value, bool) else None


def _list(value: object) -> object:
    return cast("list[object]", value) if isinstance(value, list) and value else None


def _nothing(_: object) -> object:
    return None


_VALUES: Mapping[str, Callable[[object], object]] = {
    "type": _type,
    "required": _names,
    "enum": _list,
    "examples": _list,
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _number
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
        _count,
    ),
    **dict.fromkeys(("title", "description", "format", "pattern", "$ref"), _text),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated"), _flag),
    **dict.fromkeys(
        ("additionalItems", "dependencies", "dependentRequired", "$anchor", "$dynamicRef"), _nothing
    ),
}
"""How the values of keywords are read; None leaves one out."""
