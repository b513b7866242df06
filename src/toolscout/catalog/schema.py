"""JSON Schemas as frozen text: compact to keep, decoded when read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ..errors import SchemaError

EMPTY = '{"type":"object","properties":{}}'
_DEPTH = 4
_WIDTH = 400


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool, as its schema declares it."""

    name: str
    type: str = "any"
    description: str = ""
    required: bool = False
    values: tuple[str, ...] = ()
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Schema:
    """A JSON Schema kept as compact text, so a hundred thousand of them fit in memory."""

    text: str = EMPTY

    @classmethod
    def of(cls, value: object) -> Schema:
        """Freeze a decoded schema; null means *takes no arguments*."""
        if value is None:
            return _NOTHING
        if not isinstance(value, Mapping):
            raise SchemaError(
                f"A schema must be a JSON object, not {type(value).__name__}.",
                hint='Write {"type": "object", "properties": {…}} or null.',
            )
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            raise SchemaError(
                f"The schema is not plain JSON: {error}.",
                hint="Remove cycles, NaN and objects JSON does not know.",
            ) from error
        return cls(text)

    @property
    def value(self) -> dict[str, Any]:
        """The schema as a fresh dictionary; changing it changes nothing here."""
        return cast("dict[str, Any]", json.loads(self.text))

    def parameters(self) -> tuple[Parameter, ...]:
        """The arguments, outer ones first, a few levels deep, in declared order."""
        return tuple(_walk(self.value))

    def top(self) -> tuple[Parameter, ...]:
        """Only the outermost arguments."""
        return tuple(p for p in _walk(self.value, deepest=0))


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _resolve(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """Follow local references a few steps; cycles simply end."""
    for _ in range(_DEPTH):
        reference = node.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        target: object = root
        for part in reference[2:].split("/"):
            target = _mapping(target).get(part.replace("~1", "/").replace("~0", "~"))
        node = {**_mapping(target), **{k: v for k, v in node.items() if k != "$ref"}}
    return node


def _type_of(node: dict[str, Any]) -> str:
    kind: object = node.get("type")
    if isinstance(kind, str):
        if kind == "array":
            return f"{_type_of(_mapping(node.get('items')))}[]"
        return kind
    if isinstance(kind, list):
        return "|".join(str(k) for k in cast("list[object]", kind) if k != "null") or "any"
    for key in ("anyOf", "oneOf"):
        options = node.get(key)
        if isinstance(options, list):
            kinds = [_type_of(_mapping(o)) for o in cast("list[object]", options)]
            return "|".join(dict.fromkeys(k for k in kinds if k != "null")) or "any"
    return "enum" if "enum" in node else "any"


def _values(node: dict[str, Any]) -> tuple[str, ...]:
    options = node.get("enum")
    if not isinstance(options, list):
        options = _mapping(node.get("items")).get("enum")
    if not isinstance(options, list):
        return ()
    return tuple(str(v) for v in cast("list[object]", options)[:_WIDTH])


def _walk(root: dict[str, Any], *, deepest: int = _DEPTH) -> Iterator[Parameter]:
    level: list[tuple[dict[str, Any], int]] = [(_resolve(root, root), 0)]
    seen = 0
    while level:
        node, depth = level.pop(0)
        required = node.get("required")
        needed = set(cast("list[str]", required)) if _is_names(required) else set[str]()
        for name, raw in _mapping(node.get("properties")).items():
            seen += 1
            if seen > _WIDTH:
                return
            child = _resolve(_mapping(raw), root)
            text = child.get("description")
            yield Parameter(
                name=name,
                type=_type_of(child),
                description=text if isinstance(text, str) else "",
                required=name in needed,
                values=_values(child),
                depth=depth,
            )
            if depth < deepest:
                level += [(n, depth + 1) for n in _children(child, root)]


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in cast("list[object]", value))


def _children(node: dict[str, Any], root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if node.get("properties"):
        yield node
    items = _resolve(_mapping(node.get("items")), root)
    if items.get("properties"):
        yield items
    for key in ("anyOf", "oneOf", "allOf"):
        options = node.get(key)
        if isinstance(options, list):
            for option in cast("list[object]", options):
                resolved = _resolve(_mapping(option), root)
                if resolved.get("properties"):
                    yield resolved


_NOTHING = Schema()
