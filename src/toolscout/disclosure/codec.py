"""Encode tool definitions compactly for storage with a session."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from typing import Any

from ..catalog.sanitization import compact_json
from ..catalog.schema import Schema
from ..catalog.tool import Annotations, Tool


def pack_tools(tools: Iterable[Tool]) -> str:
    """The parts of some tools that a view shows, as one text."""
    rows = [_tool_row(tool) for tool in tools]
    if not rows:
        return ""
    # A hosted search is sent the whole catalog, and all of it is stored: 33 kB for 117 tools, 1 MB
    # for 5,248 (docs/decisions/sessions.md). JSON carries base 85 without escapes. "replace"
    # stands for lone surrogates, which UTF-8 cannot encode.
    data = compact_json(rows).encode("utf-8", "replace")
    return base64.b85encode(zlib.compress(data)).decode()


def unpack_tools(text: str) -> tuple[Tool, ...]:
    """The tools in a packed text, in order; raises ValueError for any other text."""
    if not text:
        return ()
    try:
        rows = json.loads(zlib.decompress(base64.b85decode(text)))
        return tuple(tool_from_row(row) for row in rows)
    except (zlib.error, KeyError, TypeError) as error:
        raise ValueError(f"not packed definitions ({error})") from error


def tool_from_row(row: dict[str, Any]) -> Tool:
    """A tool from its row."""
    output, hints = row.get("output"), row.get("hints")
    return Tool(
        name=row["name"],
        title=row.get("title", ""),
        description=row.get("description", ""),
        parameters=Schema(row["parameters"]),
        output=Schema(output) if output else None,
        server=row.get("server", ""),
        category=row.get("category", ""),
        local=row.get("local", ""),
        annotations=Annotations(*hints) if hints else None,
    )


def _tool_row(tool: Tool) -> dict[str, Any]:
    row = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "parameters": tool.parameters.text,
        "output": tool.output.text if tool.output else None,
        "server": tool.server,
        "category": tool.category,
        "local": tool.local,
        "hints": _hints(tool.annotations),
    }
    return {key: value for key, value in row.items() if value}


def _hints(annotations: Annotations | None) -> list[bool | None] | None:
    if annotations is None:
        return None
    return [
        annotations.read_only,
        annotations.destructive,
        annotations.idempotent,
        annotations.open_world,
    ]
