"""Gemini's tool format: types in capitals, and built-in tools without a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
# Keywords whose value is data and not a schema, and keywords whose keys are names: "type" inside
# them does not name a type.
_DATA_KEYWORDS = frozenset({"default", "example", "examples", "enum", "const"})
_MAP_KEYWORDS = frozenset({"properties", "$defs", "definitions", "defs", "patternProperties"})
_BUILTIN_TOOLS = frozenset(
    "googleSearch googleSearchRetrieval googleMaps codeExecution urlContext computerUse fileSearch"
    " enterpriseWebSearch retrieval parallelAiSearch exaAiSearch".lower().split()
)


def builtin_tool_key(row: Mapping[str, Any]) -> str:
    """The key of a tool that Gemini runs itself, if the row has nothing else."""
    keys = [str(key) for key in row]  # YAML keys need not be strings
    is_builtin = all(key.replace("_", "").lower() in _BUILTIN_TOOLS for key in keys)
    return keys[0] if keys and is_builtin else ""


def lowercase_types(schema: object) -> object:
    """Convert types in capitals to those of JSON Schema."""
    if not isinstance(schema, dict):
        return schema
    whole = cast("dict[str, object]", schema)
    kind = whole.get("type")
    # A schema whose own type is not in capitals does not come from Gemini.
    if kind is not None and not (isinstance(kind, str) and kind in _TYPES):
        return whole
    try:
        return _lowercase(whole)
    except RecursionError:
        return whole  # too deep: `Schema.of` refuses it with a clear error


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
    return item if key in _DATA_KEYWORDS else _lowercase(item, is_map=key in _MAP_KEYWORDS)
