"""Search metadata that an MCP server adds to a tool: the entry `toolscout` of `_meta`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mcp_types as types
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from ...catalog.sanitization import PHRASES_CAP, clean_line
from ...catalog.tool import Extraction, Tool

META_KEY = "toolscout"


class _Row(BaseModel):
    """A row that a server sent; keys of later versions are ignored."""

    model_config = ConfigDict(
        extra="ignore", strict=True, alias_generator=to_camel, populate_by_name=True
    )


class _ExtractionRow(_Row):
    path: str
    type: str
    name_field: str
    id_field: str = "id"
    is_array: bool = False


class _MetadataRow(_Row):
    category: str = ""
    phrases: list[str] = Field(default=[], max_length=PHRASES_CAP)
    related: list[str] = Field(default=[], validation_alias="relatedTools")
    extraction: _ExtractionRow | None = None


def read_tool_metadata(item: types.Tool, qualify: Callable[[str], str]) -> dict[str, Any]:
    """Category, phrases, related tools and extraction as fields of a tool.

    Risk and confirmation are not read: a server must not decide what runs without approval.
    """
    own: Any = (item.meta or {}).get(META_KEY)
    try:
        row = _MetadataRow.model_validate(own or {})
    except ValidationError:  # only a help for the search, so the tool works without it
        return {}
    return {
        "category": clean_line(row.category),
        "phrases": tuple(clean_line(phrase) for phrase in row.phrases),
        "related": tuple(qualify(clean_line(name)) for name in row.related),
        "extraction": _extraction(row.extraction),
    }


def write_tool_metadata(tool: Tool) -> dict[str, Any] | None:
    """The `_meta` of a tool from which `read_tool_metadata` reads the same fields."""
    found = tool.extraction
    extraction = None
    if found is not None:
        extraction = {
            "path": found.path,
            "type": found.type,
            "nameField": found.name_field,
            "idField": found.id_field,
            "isArray": found.is_array,
        }
    row: dict[str, Any] = {
        "category": tool.category,
        "phrases": list(tool.phrases[:PHRASES_CAP]),
        "relatedTools": list(tool.related),
        "extraction": extraction,
    }
    own = {key: value for key, value in row.items() if value}
    return {META_KEY: own} if own else None


def _extraction(row: _ExtractionRow | None) -> Extraction | None:
    if row is None:
        return None
    return Extraction(row.path, row.type, row.name_field, row.id_field, is_array=row.is_array)
