"""Between the protocol's records and ours: tools and results, nothing lost on the way."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import mcp_types as types

from ...clean import clean, clean_line
from ...names import qualified, wire_name
from ...result import Content, Result
from ...schema import Schema
from ...tool import Annotations, Tool


def tools_of(server: str, listed: Iterable[types.Tool]) -> Iterator[tuple[Tool, str]]:
    """Each tool as the catalog knows it, with the name its server calls it by."""
    for item in listed:
        yield tool_of(server, item), item.name


def tool_of(server: str, item: types.Tool) -> Tool:
    """One listed tool, under its canonical name and with its text cleaned."""
    metadata: dict[str, Any] = {"mcp": {"name": item.name}}
    if item.meta:
        metadata["_meta"] = item.meta
    return Tool(
        name=wire_name(qualified(server, clean_line(item.name))),
        title=clean_line(item.title or (item.annotations and item.annotations.title) or ""),
        description=clean(item.description or ""),
        parameters=Schema.of(item.input_schema),
        output=Schema.of(item.output_schema) if item.output_schema is not None else None,
        server=server,
        annotations=_annotations(item.annotations),
        metadata=json.dumps(metadata, ensure_ascii=False, separators=(",", ":")),
    )


def _annotations(given: types.ToolAnnotations | None) -> Annotations | None:
    if given is None:
        return None
    return Annotations(
        read_only=given.read_only_hint,
        destructive=given.destructive_hint,
        idempotent=given.idempotent_hint,
        open_world=given.open_world_hint,
    )


def result_of(reply: types.CallToolResult) -> Result:
    """A call's reply as our result; the reply itself rides along for who speaks MCP too."""
    structured = reply.structured_content
    return Result(
        content=tuple(content_of(block) for block in reply.content),
        structured=None if structured is None else json.dumps(structured, ensure_ascii=False),
        is_error=reply.is_error,
    )


def content_of(block: types.ContentBlock) -> Content:
    """One content block."""
    match block:
        case types.TextContent():
            return Content(text=block.text)
        case types.ImageContent():
            return Content(type="image", data=block.data, mime=block.mime_type)
        case types.AudioContent():
            return Content(type="audio", data=block.data, mime=block.mime_type)
        case types.ResourceLink():
            return Content(type="link", uri=block.uri, name=block.name, mime=block.mime_type or "")
        case types.EmbeddedResource():
            return _embedded(block.resource)


def _embedded(inner: types.TextResourceContents | types.BlobResourceContents) -> Content:
    text = inner.text if isinstance(inner, types.TextResourceContents) else ""
    data = inner.blob if isinstance(inner, types.BlobResourceContents) else ""
    return Content(type="resource", text=text, data=data, uri=inner.uri, mime=inner.mime_type or "")
