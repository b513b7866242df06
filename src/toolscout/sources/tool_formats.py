"""The formats of tools: our own, OpenAI, Anthropic, Gemini and MCP.

The formats differ in the envelope around a tool and in the names of its fields. The format is
detected from the data, so it need not be named.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from ..catalog.tool import qualify_name
from ..errors import CatalogError

TOOL_LIST_KEYS = ("tools", "functions", "function_declarations", "functionDeclarations")
"""The keys under which the known formats keep their list of tools."""

_OTHER_FORMATS = {
    "mcpServers": "an MCP configuration: its servers list their tools themselves",
    "openapi": "an OpenAPI document",
    "swagger": "an OpenAPI document",
}
_MAX_DEPTH = 8
# In an object that maps names to tools, every value has one of these keys.
_TOOL_KEYS = frozenset({"description", "parameters", "input_schema", "inputSchema", "phrases"})
_ALIASES = {
    "title": "title display_name displayName",
    "parameters": "parameters full_parameters inputSchema input_schema parametersJsonSchema"
    " parameters_json_schema",
    "output": "output outputSchema output_schema responseJsonSchema response_json_schema response",
    "related": "related relatedTools related_tools",
    "skill": "skill relatedSkill related_skill",
    "risk": "risk riskLevel risk_level",
    "requires_confirmation": "requires_confirmation requiresConfirmation",
    "defer": "defer deferrable defer_loading",
    "always_load": "always_load alwaysLoad",
    "should_defer": "should_defer shouldDefer",
    "annotations": "annotations hints",
}
_PLAIN = "name description server category phrases tags usage extraction metadata local policy"
FIELD_NAMES = {name: name for name in _PLAIN.split()} | {
    alias: ours for ours, aliases in _ALIASES.items() for alias in aliases.split()
}
"""Our name of a field, by the name that any of the formats has for it."""

HINT_NAMES = {
    "read_only": ("read_only", "readOnlyHint", "readOnly", "readonly"),
    "destructive": ("destructive", "destructiveHint"),
    "idempotent": ("idempotent", "idempotentHint"),
    "open_world": ("open_world", "openWorldHint", "openWorld"),
}
"""The names of each annotation; those of MCP end in "Hint"."""

DEFERRAL_NAMES: dict[object, str] = {"automatic": "auto", True: "always", False: "auto"}
"""Other spellings of a deferral; `defer_loading` of the providers is a boolean."""

EXTRACTION_NAMES = {
    "path": "path",
    "type": "type",
    "name_field": "nameField",
    "id_field": "idField",
}
"""The fields of an extraction, each with its other name."""

# Gemini writes types in capitals.
_TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
# Keywords whose value is data and not a schema, and keywords whose keys are names: "type" inside
# them does not name a type.
_DATA_KEYWORDS = frozenset({"default", "example", "examples", "enum", "const"})
_MAP_KEYWORDS = frozenset({"properties", "$defs", "definitions", "defs", "patternProperties"})
_BUILTIN_TOOLS = frozenset(
    "googleSearch googleSearchRetrieval googleMaps codeExecution urlContext computerUse fileSearch"
    " enterpriseWebSearch retrieval parallelAiSearch exaAiSearch".lower().split()
)


def is_tool(members: Mapping[str, object]) -> bool:
    """Whether an object is a tool itself, even if it has a list of tools in it."""
    return "name" in members and members.get("type") != "namespace"


def server_of(members: Mapping[str, object]) -> str:
    """The namespace or server that the tools inside an envelope belong to."""
    name = members.get("name") if members.get("type") == "namespace" else members.get("server")
    return name if isinstance(name, str) else ""


def other_format(value: object) -> str:
    """What a value describes if it is not a list of tools; empty if it may be one."""
    keys: Iterable[str] = _OTHER_FORMATS if isinstance(value, dict) else ()
    return next((_OTHER_FORMATS[key] for key in keys if key in value), "")  # pyright: ignore[reportOperatorIssue]  keys are empty unless it is a dict


def is_plain_type(value: object) -> bool:
    """Whether a `type` says only that the object is a tool."""
    return value in ("function", "custom", "tool")


def unwrap_tools(value: object, server: str, depth: int = 0) -> Iterator[object]:
    """The tool objects in a value, taken out of lists and envelopes."""
    if depth > _MAX_DEPTH or not isinstance(value, list | dict):
        yield value
        return
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from unwrap_tools(item, server, depth + 1)
        return
    node = cast("dict[str, Any]", value)
    if is_tool(node):
        yield _qualify_row(node, server)
    elif (inner := _envelope_content(node)) is not None:
        yield from unwrap_tools(inner, server_of(node) or server, depth + 1)
    elif _is_name_map(node):
        yield from (_row_for_key(key, entry, server) for key, entry in node.items())
    else:
        yield _qualify_row(node, server)


def _envelope_content(node: dict[str, Any]) -> object:
    """The content of an envelope: its lists of tools, an MCP result, or one function."""
    lists = [node[key] for key in TOOL_LIST_KEYS if _is_tool_list(node.get(key))]
    if lists:
        return [item for rows in lists for item in rows]
    if isinstance(node.get("result"), dict):
        return node["result"]
    if isinstance(node.get("function"), dict):
        # OpenAI Chat: fields beside "function", such as "server", belong to the tool as well.
        outer = {k: v for k, v in node.items() if k not in ("function", "type")}
        return outer | node["function"]
    return None


def _is_tool_list(value: object) -> bool:
    """Whether a value is a list of tools, of which some may be invalid."""
    items = cast("list[object]", value) if isinstance(value, list) else None
    return items is not None and (not items or any(isinstance(item, dict) for item in items))


def _qualify_row(row: dict[str, Any], server: str) -> dict[str, Any]:
    name = row.get("name")
    if not server or "server" in row or not isinstance(name, str):
        return row
    return row | {"name": qualify_name(server, name), "server": server}


def _is_name_map(node: Mapping[str, Any]) -> bool:
    """Whether an object maps names to tools."""
    values: Iterable[object] = node.values()
    return (
        bool(node)
        and "name" not in node
        and all(
            isinstance(value, dict) and not _TOOL_KEYS.isdisjoint(cast("dict[str, Any]", value))
            for value in values
        )
    )


def _row_for_key(key: str, row: dict[str, Any], server: str) -> object:
    if row.get("name", key) == key:
        return _qualify_row({"name": key} | row, server)
    return CatalogError(
        f"The entry {key!r} calls itself {row['name']!r}.", hint="Use the same name in both places."
    )


def decode_object(text: str) -> dict[str, Any] | None:
    """The object in a JSON text, a form in which some formats have the parameters; or None."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


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
