"""Replace parameter names that a provider rejects, and map them back in the arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ...catalog.schema import Schema
from ...catalog.tool import digest
from .references import Node, map_subschemas, properties_of

_UNSAFE = re.compile(r"[^A-Za-z0-9_]")
# 55 characters, an underscore and eight hex digits: 64, the limit of Anthropic and Gemini.
_WIRE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,54}_[0-9a-f]{8}\Z")
_MAX_KEY_CHARS = 55


def wire_key(name: str) -> str:
    """A name that every provider accepts, with a hash of the original."""
    safe = _UNSAFE.sub("_", name)
    if not safe or safe[0].isdigit():
        safe = f"p_{safe}"
    return f"{safe[:_MAX_KEY_CHARS]}_{digest(name)}"


def to_wire_keys(node: Node, pattern: re.Pattern[str]) -> Node:
    """The schema with every parameter name that does not match the pattern replaced."""
    names: dict[str, str] = {
        n: wire_key(n) for n in properties_of(node) if not pattern.fullmatch(n)
    }
    if names:
        properties = {names.get(n, n): v for n, v in properties_of(node).items()}
        required = [names.get(n, n) for n in cast("list[str]", node.get("required", []))]
        node = {**node, "properties": properties, **({"required": required} if required else {})}
    return map_subschemas(node, lambda inner: _to_wire_inner(inner, pattern))


def from_wire_keys(arguments: Mapping[str, Any], schema: Schema) -> Mapping[str, Any]:
    """The arguments under the parameter names of the schema."""
    # Nearly every call leaves here: walking the schema is the slow part.
    if not any(_WIRE_KEY.match(key) for key in _keys(arguments)):
        return arguments
    names = {*_parameter_names(schema.value)}
    # A parameter whose real name looks like a wire key keeps it.
    real = {sent: name for name in sorted(names) if (sent := wire_key(name)) not in names}
    return cast("Mapping[str, Any]", _rename_keys(arguments, real))


def _to_wire_inner(value: object, pattern: re.Pattern[str]) -> object:
    return to_wire_keys(cast("Node", value), pattern) if isinstance(value, dict) else value


def _parameter_names(schema: object) -> Iterator[str]:
    """Every parameter name, at any depth."""
    subschemas: list[object] = []
    if isinstance(schema, dict):
        node = cast("Node", schema)
        yield from properties_of(node)
        map_subschemas(node, subschemas.append)
    for subschema in subschemas:
        yield from _parameter_names(subschema)


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
