"""The strings of a definition that a model may read, each with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

FieldKind = Literal["name", "description", "property", "schema", "other"]
"""Which part of a definition a string is."""

# Not text, as long as there is no space in it: types, references and names of other fields.
_SKIPPED = frozenset({"$schema", "$id", "$ref", "$anchor", "digest", "type", "required", "src"})
_SCHEMA_KEYS = frozenset(
    {"parameters", "inputSchema", "input_schema", "outputSchema", "output_schema", "output"}
)
_PROPERTY_MAPS = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_NAMES = frozenset({"/name"})
_DESCRIPTIONS = frozenset({"/description", "/title", "/annotations/title", "/function/description"})
_MAX_DEPTH = 60


@dataclass(frozen=True, slots=True)
class DefinitionField:
    """A string in a definition, or a key of an object (`is_key`)."""

    pointer: str
    text: str
    kind: FieldKind
    is_key: bool = False


def iter_fields(definition: Mapping[str, Any]) -> Iterator[DefinitionField]:
    """All strings of a definition, in the order in which they stand."""
    yield from _walk("", definition, is_schema=False, depth=0)


def _walk(pointer: str, value: Any, *, is_schema: bool, depth: int) -> Iterator[DefinitionField]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        if value:
            yield DefinitionField(pointer, value, _kind(pointer, is_schema=is_schema))
    elif isinstance(value, Mapping):
        yield from _walk_object(
            pointer, cast("Mapping[str, Any]", value), is_schema=is_schema, depth=depth
        )
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _walk(f"{pointer}/{index}", item, is_schema=is_schema, depth=depth + 1)


def _walk_object(
    pointer: str, value: Mapping[str, Any], *, is_schema: bool, depth: int
) -> Iterator[DefinitionField]:
    holds_names = is_schema and pointer.rpartition("/")[2] in _PROPERTY_MAPS
    for key, item in value.items():
        inner = f"{pointer}/{escape_token(key)}"
        if key in _SKIPPED and not holds_names and _has_no_space(item):
            continue
        if holds_names or " " in key:
            yield DefinitionField(inner, key, "property", is_key=True)
        below = is_schema or key in _SCHEMA_KEYS
        yield from _walk(inner, item, is_schema=below, depth=depth + 1)


def _has_no_space(value: Any) -> bool:
    match value:
        case str():
            return " " not in value
        case list():
            return all(
                isinstance(item, str) and " " not in item for item in cast("list[Any]", value)
            )
        case _:
            return False


def _kind(pointer: str, *, is_schema: bool) -> FieldKind:
    if is_schema:
        return "schema"
    if pointer in _NAMES or pointer.endswith("/name"):
        return "name"
    return "description" if pointer in _DESCRIPTIONS else "other"


def escape_token(key: str) -> str:
    """A key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
