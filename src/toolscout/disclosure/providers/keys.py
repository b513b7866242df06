"""Names of parameters that a provider takes, and the way back to those that a tool has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ...catalog.names import digest
from ...catalog.schema import Schema
from .references import Node, mapped

_UNSAFE = re.compile(r"[^A-Za-z0-9_]")
_SENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,54}_[0-9a-f]{8}\Z")
_LONGEST = 55


def sent_key(name: str) -> str:
    """The name that every provider takes for one that some do not: it ends in a hash of it."""
    safe = _UNSAFE.sub("_", name)
    if not safe or safe[0].isdigit():
        safe = f"p_{safe}"
    return f"{safe[:_LONGEST]}_{digest(name)}"


def with_sent_keys(node: Node, fits: re.Pattern[str]) -> Node:
    """The schema with other names for the parameters whose own do not fit."""
    names: dict[str, str] = {n: sent_key(n) for n in _properties(node) if not fits.fullmatch(n)}
    if names:
        properties = {names.get(n, n): v for n, v in _properties(node).items()}
        needed = [names.get(n, n) for n in cast("list[str]", node.get("required", []))]
        node = {**node, "properties": properties, **({"required": needed} if needed else {})}
    return mapped(node, lambda inner: _inside(inner, fits))


def with_real_keys(arguments: Mapping[str, Any], schema: Schema) -> Mapping[str, Any]:
    """Arguments under the names that the schema has, whichever they were sent under."""
    if not any(_SENT.match(key) for key in _keys(arguments)):
        return arguments
    names = {*_names(schema.value)}
    real = {sent: name for name in sorted(names) if (sent := sent_key(name)) not in names}
    return cast("Mapping[str, Any]", _renamed(arguments, real))


def _inside(value: object, fits: re.Pattern[str]) -> object:
    return with_sent_keys(cast("Node", value), fits) if isinstance(value, dict) else value


def _properties(node: Node) -> Node:
    found: object = node.get("properties")
    return cast("Node", found) if isinstance(found, dict) else {}


def _names(schema: object) -> Iterator[str]:
    """Every parameter's name, at any depth."""
    inner: list[object] = []
    if isinstance(schema, dict):
        node = cast("Node", schema)
        yield from _properties(node)
        mapped(node, inner.append)
    for one in inner:
        yield from _names(one)


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in cast("Mapping[object, object]", value).items():
            yield str(key)
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _keys(inner)


def _renamed(value: object, real: Mapping[str, str]) -> object:
    if isinstance(value, Mapping):
        row = cast("Mapping[str, object]", value)
        return {real.get(k, k): _renamed(v, real) for k, v in row.items()}
    if isinstance(value, list):
        return [_renamed(v, real) for v in cast("list[object]", value)]
    return value
