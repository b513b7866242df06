"""Names of parameters that a provider takes, and the way back to those that a tool has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ...catalog.names import digest
from ...catalog.schema import Schema
from .references import Node, map_subschemas

_UNSAFE = re.compile(r"[^A-Za-z0-9_]")
_WIRE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,54}_[0-9a-f]{8}\Z")
_MAX_KEY_CHARS = 55


def wire_key(name: str) -> str:
    """The name that every provider takes for one that some do not: it ends in a hash of it."""
    safe = _UNSAFE.sub("_", name)
    if not safe or safe[0].isdigit():
        safe = f"p_{safe}"
    return f"{safe[:_MAX_KEY_CHARS]}_{digest(name)}"


def to_wire_keys(node: Node, fits: re.Pattern[str]) -> Node:
    """The schema with other names for the parameters whose own do not fit."""
    names: dict[str, str] = {n: wire_key(n) for n in _properties(node) if not fits.fullmatch(n)}
    if names:
        properties = {names.get(n, n): v for n, v in _properties(node).items()}
        needed = [names.get(n, n) for n in cast("list[str]", node.get("required", []))]
        node = {**node, "properties": properties, **({"required": needed} if needed else {})}
    return map_subschemas(node, lambda inner: _to_wire_inner(inner, fits))


def from_wire_keys(arguments: Mapping[str, Any], schema: Schema) -> Mapping[str, Any]:
    """Arguments under the names that the schema has, whichever they were sent under."""
    if not any(_WIRE_KEY.match(key) for key in _keys(arguments)):
        return arguments
    names = {*_parameter_names(schema.value)}
    real = {sent: name for name in sorted(names) if (sent := wire_key(name)) not in names}
    return cast("Mapping[str, Any]", _rename_keys(arguments, real))


def _to_wire_inner(value: object, fits: re.Pattern[str]) -> object:
    return to_wire_keys(cast("Node", value), fits) if isinstance(value, dict) else value


def _properties(node: Node) -> Node:
    found: object = node.get("properties")
    return cast("Node", found) if isinstance(found, dict) else {}


def _parameter_names(schema: object) -> Iterator[str]:
    """Every parameter's name, at any depth."""
    inner: list[object] = []
    if isinstance(schema, dict):
        node = cast("Node", schema)
        yield from _properties(node)
        map_subschemas(node, inner.append)
    for one in inner:
        yield from _parameter_names(one)


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[object, object]", value).items():
            yield str(key)
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _keys(inner)


def _rename_keys(value: object, real: Mapping[str, str]) -> object:
    if isinstance(value, Mapping):
        row = cast("Mapping[str, object]", value)
        return {real.get(k, k): _rename_keys(v, real) for k, v in row.items()}
    if isinstance(value, list):
        return [_rename_keys(v, real) for v in cast("list[object]", value)]
    return value
