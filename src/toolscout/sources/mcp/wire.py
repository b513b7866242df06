"""Convert tools and results between MCP types and the catalog's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container
from dataclasses import dataclass
from typing import Any, TypeVar, assert_never, cast

import mcp_types as types
from pydantic import BaseModel

from ...catalog.result import Content, Result
from ...catalog.sanitization import JSONEncodeError, clean, clean_line, encode_json
from ...catalog.schema import Schema
from ...catalog.tool import Annotations, Tool, qualify_name, wire_name
from .servers import Server
from .tool_metadata import read_tool_metadata

# `_meta` is free for any data, and is kept with every tool.
_MAX_META_CHARS = 2_000
_Record = TypeVar("_Record", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class MCPToolDefinition:
    """A tool, the MCP definition it comes from, and a hash over that definition."""

    tool: Tool
    local: str
    digest: str
    raw: types.Tool


def define_tool(
    server: Server, item: types.Tool, *, used_names: Container[str] = ()
) -> MCPToolDefinition:
    """Convert a listed tool: canonical name, and text without hidden characters."""
    prefix = server.name if server.is_prefixed else ""

    def qualify(local: str) -> str:
        return wire_name(qualify_name(prefix, local))

    name = qualify(clean_line(item.name))
    # Two names may become one when hidden characters are removed. The space makes `wire_name` add a
    # hash, which keeps them apart.
    if name in used_names:
        name = wire_name(f"{name} {item.name}")
    digest = definition_digest(item)
    title = item.title or (item.annotations.title if item.annotations else "") or ""
    tool = Tool(
        name=name,
        title=clean_line(title),
        description=clean(item.description or ""),
        parameters=Schema.of(item.input_schema),
        output=Schema.of(item.output_schema) if item.output_schema is not None else None,
        server=server.name,
        defer="never" if server.pins_tool(item.name) else "auto",
        annotations=_annotations(item.annotations),
        local=item.name,
        metadata=_metadata(item, digest),
        **read_tool_metadata(item, qualify),
    )
    return MCPToolDefinition(tool=tool, local=item.name, digest=digest, raw=item)


def dump_definition(item: types.Tool) -> dict[str, Any]:
    """The whole definition as JSON data, without fields that are not set."""
    return item.model_dump(mode="json", by_alias=True, exclude_none=True)


def clean_definition(item: types.Tool) -> types.Tool | None:
    """The definition without hidden characters; None if it cannot be written as JSON."""
    try:
        return types.Tool.model_validate_json(encode_json(dump_definition(item)))
    except JSONEncodeError:
        return None


def definition_digest(item: types.Tool) -> str:
    """A hash over the whole definition, `_meta` and annotations included, to detect changes."""
    text = json.dumps(
        dump_definition(item), sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    # A server may send half a surrogate pair, which plain UTF-8 refuses.
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def tool_origin(tool: Tool) -> tuple[str, str]:
    """The server's own name of a tool, and the hash of its definition."""
    record = tool.meta.get("mcp", {})
    return record.get("name", tool.local_name), record.get("digest", "")


def _metadata(item: types.Tool, digest: str) -> str:
    record: dict[str, Any] = {"mcp": {"name": item.name, "digest": digest}}
    if item.meta and len(json.dumps(item.meta)) <= _MAX_META_CHARS:
        record["_meta"] = item.meta
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def _annotations(hints: types.ToolAnnotations | None) -> Annotations | None:
    if hints is None:
        return None
    return Annotations(
        read_only=hints.read_only_hint,
        destructive=hints.destructive_hint,
        idempotent=hints.idempotent_hint,
        open_world=hints.open_world_hint,
    )


def redact_record(record: _Record, server: Server) -> _Record:
    """An error record without the server's secrets, at any depth."""
    data = record.model_dump(mode="json", by_alias=True, exclude_unset=True)
    redacted = _redact_value(data, server)
    return record if redacted == data else type(record).model_validate(redacted)


def _redact_value(value: Any, server: Server) -> Any:
    if isinstance(value, str):
        return server.redact(value)
    if isinstance(value, dict):
        return {k: _redact_value(v, server) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_redact_value(v, server) for v in cast("list[Any]", value)]
    return value


def tool_result(reply: types.CallToolResult) -> Result:
    """A tool's reply as a result; `raw` keeps the reply itself for MCP clients."""
    structured = reply.structured_content
    return Result(
        content=tuple(to_content(block) for block in reply.content),
        structured=None if structured is None else json.dumps(structured, ensure_ascii=False),
        is_error=reply.is_error,
        raw=reply,
    )


def prompt_result(reply: types.GetPromptResult) -> Result:
    """A filled-in prompt as a result, one part per message."""
    parts: list[Content] = []
    for message in reply.messages:
        block = to_content(message.content)
        if block.type == "text":
            block = Content(text=f"[{message.role}] {block.text}")
        parts.append(block)
    return Result(content=tuple(parts), raw=reply)


def resource_result(reply: types.ReadResourceResult) -> Result:
    """A resource as a result, one part per piece of content."""
    return Result(content=tuple(_resource_content(item) for item in reply.contents), raw=reply)


def to_content(block: types.ContentBlock) -> Content:
    """Convert one content block."""
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
            return _resource_content(block.resource)
        case _:
            assert_never(block)


def _resource_content(inner: types.TextResourceContents | types.BlobResourceContents) -> Content:
    text = inner.text if isinstance(inner, types.TextResourceContents) else ""
    data = inner.blob if isinstance(inner, types.BlobResourceContents) else ""
    return Content(type="resource", text=text, data=data, uri=inner.uri, mime=inner.mime_type or "")
