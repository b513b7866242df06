"""Between the protocol's records and ours: tools and results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import mcp_types as types
from pydantic import BaseModel

from ...catalog.names import qualify_name, wire_name
from ...catalog.result import Content, Result
from ...catalog.sanitization import JSONEncodeError, clean, clean_line, encode_json
from ...catalog.schema import Schema
from ...catalog.tool import Annotations, Tool
from .servers import Server

_MAX_META_CHARS = 2_000
_Record = TypeVar("_Record", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class MCPToolDefinition:
    """A tool beside the definition it came from, hashed over all of it."""

    tool: Tool
    local: str
    digest: str
    raw: types.Tool


def define_tool(
    server: Server, item: types.Tool, *, taken: Container[str] = ()
) -> MCPToolDefinition:
    """One listed tool, under its canonical name and with its text cleaned."""
    prefix = server.name if server.is_prefixed else ""
    name = wire_name(qualify_name(prefix, clean_line(item.name)))
    if name in taken:
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
    )
    return MCPToolDefinition(tool=tool, local=item.name, digest=digest, raw=item)


def dump_definition(item: types.Tool) -> dict[str, Any]:
    """The whole definition as JSON, fields that were never set left out."""
    return item.model_dump(mode="json", by_alias=True, exclude_none=True)


def clean_definition(item: types.Tool) -> types.Tool | None:
    """The definition without hidden characters in any of it; none if it is no JSON."""
    try:
        return types.Tool.model_validate_json(encode_json(dump_definition(item)))
    except JSONEncodeError:
        return None


def definition_digest(item: types.Tool) -> str:
    """A hash over title, description, schemas, annotations, `_meta`: any change shows."""
    text = json.dumps(
        dump_definition(item), sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def tool_origin(tool: Tool) -> tuple[str, str]:
    """The name its server calls a tool by, and the hash of the definition it came from."""
    record = tool.meta.get("mcp", {})
    return record.get("name", tool.local_name), record.get("digest", "")


def _metadata(item: types.Tool, digest: str) -> str:
    record: dict[str, Any] = {"mcp": {"name": item.name, "digest": digest}}
    if item.meta and len(json.dumps(item.meta)) <= _MAX_META_CHARS:
        record["_meta"] = item.meta
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def _annotations(given: types.ToolAnnotations | None) -> Annotations | None:
    if given is None:
        return None
    return Annotations(
        read_only=given.read_only_hint,
        destructive=given.destructive_hint,
        idempotent=given.idempotent_hint,
        open_world=given.open_world_hint,
    )


def redact_record(record: _Record, server: Server) -> _Record:
    """What went wrong, in the server's words but without its secrets, however deep they are."""
    told = record.model_dump(mode="json", by_alias=True, exclude_unset=True)
    without = _redact_value(told, server)
    return record if without == told else type(record).model_validate(without)


def _redact_value(value: Any, server: Server) -> Any:
    if isinstance(value, str):
        return server.redact(value)
    if isinstance(value, dict):
        return {k: _redact_value(v, server) for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_redact_value(v, server) for v in cast("list[Any]", value)]
    return value


def tool_result(reply: types.CallToolResult) -> Result:
    """A call's reply as our result; the reply itself rides along for who speaks MCP too."""
    structured = reply.structured_content
    return Result(
        content=tuple(to_content(block) for block in reply.content),
        structured=None if structured is None else json.dumps(structured, ensure_ascii=False),
        is_error=reply.is_error,
        raw=reply,
    )


def prompt_result(reply: types.GetPromptResult) -> Result:
    """A filled-in prompt as text a model can read, one part a message."""
    parts: list[Content] = []
    for message in reply.messages:
        block = to_content(message.content)
        if block.type == "text":
            block = Content(text=f"[{message.role}] {block.text}")
        parts.append(block)
    return Result(content=tuple(parts), raw=reply)


def resource_result(reply: types.ReadResourceResult) -> Result:
    """A read resource, one part a piece."""
    return Result(content=tuple(_resource_content(item) for item in reply.contents), raw=reply)


def to_content(block: types.ContentBlock) -> Content:
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
            return _resource_content(block.resource)


def _resource_content(inner: types.TextResourceContents | types.BlobResourceContents) -> Content:
    text = inner.text if isinstance(inner, types.TextResourceContents) else ""
    data = inner.blob if isinstance(inner, types.BlobResourceContents) else ""
    return Content(type="resource", text=text, data=data, uri=inner.uri, mime=inner.mime_type or "")
