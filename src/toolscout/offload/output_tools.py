"""Definitions of the tools that read stored results, and parsing of their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..catalog.schema import Schema
from ..catalog.tool import Annotations, Tool

LARGE_OUTPUT_TOOL = "search_large_output"
# Older names of two operations. Models still call them in conversations that began with them.
ALIASES: Mapping[str, str] = {"read_large_output": "read", "query_large_output": "query"}
OUTPUT_TOOLS = frozenset((LARGE_OUTPUT_TOOL, *ALIASES))
OPERATIONS = ("read", "search", "query")
_MAX_RESULTS = 50


class OutputArgumentsError(ValueError):
    """The arguments are invalid; the text says what is wrong."""


class ReadOperation(BaseModel):
    """Read characters `start` to `end`, counted from 1, both included."""

    model_config = ConfigDict(frozen=True)

    filename: str
    start: int
    end: int


class SearchOperation(BaseModel):
    """Find lines by a regular expression."""

    model_config = ConfigDict(frozen=True)

    filename: str
    pattern: str
    case_sensitive: bool = False
    max_results: int = Field(default=_MAX_RESULTS, ge=1, le=1_000)


class QueryOperation(BaseModel):
    """Query a JSON result with a jq program."""

    model_config = ConfigDict(frozen=True)

    filename: str
    query: str
    compact: bool = False
    raw: bool = False


_FILENAME = {
    "type": "string",
    "description": "The filename from the notice about the saved result.",
}
_READ = {
    "start": {"type": "integer", "description": "read: the first character, counted from 1."},
    "end": {"type": "integer", "description": "read: the last character, included."},
}
_SEARCH = {
    "pattern": {"type": "string", "description": "search: an RE2 regular expression."},
    "case_sensitive": {"type": "boolean", "default": False},
    "max_results": {"type": "integer", "default": _MAX_RESULTS, "minimum": 1},
}
_QUERY = {
    "query": {"type": "string", "description": "query: a jq program, such as '.items[].name'."},
    "compact": {"type": "boolean", "default": False, "description": "query: no indentation."},
    "raw": {"type": "boolean", "default": False, "description": "query: strings unquoted."},
}
_OPERATION = {
    "type": "string",
    "enum": [*OPERATIONS],
    "description": "read a range of characters, search by pattern, or query JSON with jq.",
}


def output_tool_definitions(*, with_aliases: bool = False) -> tuple[Tool, ...]:
    """The tool as models get it, and on request the two older names."""
    unified = _build_tool(
        LARGE_OUTPUT_TOOL,
        "Read more of a large result that was saved to a file: read a range of characters, search "
        "it by regular expression, or query JSON with jq.",
        {"filename": _FILENAME, "operation": _OPERATION, **_READ, **_SEARCH, **_QUERY},
        required=("filename", "operation"),
    )
    if not with_aliases:
        return (unified,)
    read = _build_tool(
        "read_large_output",
        "Read a range of characters from a saved result.",
        {"filename": _FILENAME, **_READ},
        required=("filename", "start", "end"),
    )
    query = _build_tool(
        "query_large_output",
        "Query a saved JSON result with a jq program.",
        {"filename": _FILENAME, **_QUERY},
        required=("filename", "query"),
    )
    return unified, read, query


def parse_operation(
    name: str, arguments: Mapping[str, Any]
) -> ReadOperation | SearchOperation | QueryOperation:
    """The operation that a call requests, by either name; OutputArgumentsError if it is unclear."""
    if name == LARGE_OUTPUT_TOOL:
        operation = arguments.get("operation")
    elif name in ALIASES:
        operation = ALIASES[name]
    else:
        known = ", ".join((LARGE_OUTPUT_TOOL, *ALIASES))
        raise OutputArgumentsError(f"There is no output tool {name!r}. Use one of: {known}.")
    match operation:
        case "read":
            return _validate_arguments(ReadOperation, arguments)
        case "search":
            return _validate_arguments(SearchOperation, arguments)
        case "query":
            return _validate_arguments(QueryOperation, arguments)
        case _:
            what = "is missing" if operation is None else f"cannot be {operation!r}"
            raise OutputArgumentsError(f"operation {what}. Use one of: {', '.join(OPERATIONS)}.")


_Operation = TypeVar("_Operation", ReadOperation, SearchOperation, QueryOperation)


def _validate_arguments(kind: type[_Operation], arguments: Mapping[str, Any]) -> _Operation:
    try:
        return kind.model_validate(dict(arguments))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {e['msg'].lower()}"
            for e in error.errors(include_url=False)
        )
        raise OutputArgumentsError(f"These arguments do not fit: {problems}.") from error


def _build_tool(
    name: str, description: str, properties: Mapping[str, object], *, required: tuple[str, ...]
) -> Tool:
    schema = {"type": "object", "properties": properties, "required": [*required]}
    return Tool(
        name=name,
        description=description,
        parameters=Schema.of(schema),
        category="large results",
        defer="never",
        annotations=Annotations(read_only=True, destructive=False, open_world=False),
    )
