"""What Gemini writes otherwise: types in capitals, and tools of its own without a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
_VALUES = frozenset({"default", "example", "examples", "enum", "const"})
_MAPS = frozenset({"properties", "$defs", "definitions", "defs", "patternProperties"})
_BUILTIN_TOOLS = frozenset(
    "googleSearch googleSearchRetrieval googleMaps codeExecution urlContext computerUse fileSearch"
    " enterpriseWebSearch retrieval parallelAiSearch exaAiSearch".lower().split()
)


def builtin_tool_key(row: Mapping[str, Any]) -> str:
    """The key by which a row asks for what Gemini runs itself, if it holds nothing else."""
    keys = [str(key) for key in row]  # YAML has other keys too
    is_hosted = all(key.replace("_", "").lower() in _BUILTIN_TOOLS for key in keys)
    return keys[0] if keys and is_hosted else ""


def lowercase_types(schema: object) -> object:
    """The schema with its types as JSON Schema has them, if they are in capitals.

    A schema that names its own type otherwise is none of Gemini's, and stays as it is.
    """
    if not isinstance(schema, dict):
        return schema
    whole = cast("dict[str, object]", schema)
    kind = whole.get("type")
    if kind is not None and not (isinstance(kind, str) and kind in _TYPES):
        return whole
    try:
        return _lowercase(whole)
    except RecursionError:
        return whole  # too deep for any schema, and told so


def _lowercase(value: object, *, is_map: bool = False) -> object:
    if isinstance(value, list):
        return [_lowercase(item) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    pairs = cast("dict[str, object]", value).items()
    if is_map:
        return {key: _lowercase(item) for key, item in pairs}
    return {key: _lowercase_member(key, item) for key, item in pairs}


def _lowercase_member(key: str, item: object) -> object:
    if key == "type" and isinstance(item, str):
        return item.lower() if item in _TYPES else item
    return item if key in _VALUES else _lowercase(item, is_map=key in _MAPS)
