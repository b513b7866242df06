"""FastMCP provider: lists the tools of a client's view and forwards calls to the gateway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast, get_args

import mcp_types as types
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.server.providers.base import Provider
from fastmcp.tools import Tool, ToolResult
from fastmcp.tools.base import InputRequiredToolResult
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import VersionSpec
from mcp.shared.exceptions import MCPError

from ...catalog.result import Content, Result
from ...sources.mcp.call_queue import ServerRefusal
from ..limits.delayed_response import refuse_request

RETRY_META = "toolscout/retry_after_seconds"


class ToolBackend(Protocol):
    """The object that lists and runs the tools: the gateway, or a single source."""

    async def list_tools(self, context: Context) -> Sequence[types.Tool]:
        """The tools that a client sees now."""
        ...

    async def instructions(self, context: Context) -> str:
        """The server instructions for a client."""
        ...

    def set_level(self, context: Context, level: types.LoggingLevel) -> None:
        """Set the lowest level of log messages that a client wants."""
        ...

    async def call(self, context: Context, name: str, arguments: dict[str, Any]) -> Result:
        """Run a tool and return its result."""
        ...


class ProxyTool(Tool):
    """A tool that forwards its calls to the backend."""

    def __init__(self, backend: ToolBackend, definition: types.Tool) -> None:
        super().__init__(name=definition.name, parameters=definition.input_schema)
        self._backend = backend
        self._definition = definition

    def to_mcp_tool(self, **_: Any) -> types.Tool:
        """The definition exactly as the view has it."""
        return self._definition

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Forward the call and return the result unchanged."""
        return render_tool_result(await self._backend.call(get_context(), self.name, arguments))


class ViewProvider(Provider):
    """Provides the tools of a client's view, and forwards calls of any other name too."""

    # FastMCP documents `_list_tools` and `_get_tool` as the methods that a provider overrides.

    def __init__(self, backend: ToolBackend) -> None:
        super().__init__()
        self._backend = backend

    async def get_tasks(self) -> Sequence[FastMCPComponent]:
        """No background tasks: calls are forwarded at once."""
        return ()

    async def _list_tools(self) -> Sequence[Tool]:
        tools = await self._backend.list_tools(get_context())
        return [ProxyTool(self._backend, definition) for definition in tools]

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:  # noqa: ARG002 -- FastMCP's signature
        # A name that is not in the view may still be a tool that was found by search, or one whose
        # server is starting. The backend decides, and explains an unknown name. Its schema is
        # checked there too, so any object is accepted here.
        return ProxyTool(self._backend, types.Tool(name=name, input_schema={"type": "object"}))


class InstructionsMiddleware(Middleware):
    """Adds each client's own instructions, and records the log level it asks for."""

    def __init__(self, backend: ToolBackend) -> None:
        self._backend = backend

    async def on_initialize(
        self,
        context: MiddlewareContext[types.InitializeRequest],
        call_next: CallNext[types.InitializeRequest, types.InitializeResult | None],
    ) -> types.InitializeResult | None:
        """Add instructions to the first response of a handshake client."""
        return await self._add_instructions(context, await call_next(context))

    async def on_discover(
        self,
        context: MiddlewareContext[types.DiscoverRequest],
        call_next: CallNext[types.DiscoverRequest, types.DiscoverResult | dict[str, Any]],
    ) -> types.DiscoverResult | dict[str, Any]:
        """Add instructions to the first response of a stateless client."""
        return await self._add_instructions(context, await call_next(context))

    async def on_request(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Record the level of `logging/setLevel`."""
        if context.method == "logging/setLevel" and context.fastmcp_context is not None:
            message: Any = context.message
            level = message.get("level") if isinstance(message, dict) else ""  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] -- raw from the wire
            if level in get_args(types.LoggingLevel):
                self._backend.set_level(context.fastmcp_context, cast("types.LoggingLevel", level))
        return await call_next(context)

    async def _add_instructions(self, context: MiddlewareContext[Any], result: Any) -> Any:
        if isinstance(result, types.InitializeResult | types.DiscoverResult):
            assert context.fastmcp_context is not None
            text = await self._backend.instructions(context.fastmcp_context)
            return result.model_copy(update={"instructions": text or None})
        return result


def render_tool_result(result: Result) -> ToolResult:
    """A result as FastMCP returns it; a server's own result is passed on unchanged."""
    match result.raw:
        case types.CallToolResult() as raw:
            return ToolResult.from_mcp_result(raw)
        case types.InputRequiredResult() as raw:
            return InputRequiredToolResult(raw)
        case ServerRefusal() as refusal:
            refuse_request(refusal)
            return ToolResult(
                content=[render_content_block(part) for part in result.content],
                is_error=True,
                meta={RETRY_META: refusal.retry_seconds},
            )
        case types.ErrorData(code=types.MISSING_REQUIRED_CLIENT_CAPABILITY) as error:
            # A protocol error: it concerns the client, while the model reads tool results.
            raise MCPError.from_error_data(error)
        case _:
            structured: object = result.value if result.structured is not None else None
            is_object = isinstance(structured, dict)
            return ToolResult(
                content=[render_content_block(part) for part in result.content],
                structured_content=cast("dict[str, Any]", structured) if is_object else None,
                is_error=result.is_error,
            )


def render_content_block(part: Content) -> types.ContentBlock:
    """One part of a result as an MCP content block."""
    match part.type:
        case "text":
            return types.TextContent(type="text", text=part.text)
        case "image":
            return types.ImageContent(type="image", data=part.data, mime_type=part.mime)
        case "audio":
            return types.AudioContent(type="audio", data=part.data, mime_type=part.mime)
        case "link":
            name = part.name or part.uri
            return types.ResourceLink(type="resource_link", uri=part.uri, name=name)
        case "resource":
            return types.EmbeddedResource(type="resource", resource=_render_resource(part))


def _render_resource(part: Content) -> types.TextResourceContents | types.BlobResourceContents:
    mime = part.mime or None
    if part.data:
        return types.BlobResourceContents(uri=part.uri, blob=part.data, mime_type=mime)
    return types.TextResourceContents(uri=part.uri, text=part.text, mime_type=mime)
