"""What a client sees: the tools of its conversation's view, each forwarding its calls."""

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


class ToolBackend(Protocol):
    """What a surface needs of the gateway behind it."""

    async def list_tools(self, context: Context) -> Sequence[types.Tool]:
        """The tools that a client sees now."""
        ...

    async def instructions(self, context: Context) -> str:
        """What a client is told at the start."""
        ...

    def set_level(self, context: Context, level: types.LoggingLevel) -> None:
        """From which level on a client wants to hear of log messages."""
        ...

    async def call(self, context: Context, name: str, arguments: dict[str, Any]) -> Result:
        """The answer to a call."""
        ...


class ProxyTool(Tool):
    """A tool by name; whatever it is, the gateway answers for it."""

    def __init__(self, gate: ToolBackend, shown: types.Tool) -> None:
        super().__init__(name=shown.name, parameters=shown.input_schema)
        self._gate = gate
        self._shown = shown

    def to_mcp_tool(self, **_: Any) -> types.Tool:
        """The definition just as the view has it."""
        return self._shown

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Hand the call to the gateway and its answer back, as it is."""
        return render_tool_result(await self._gate.call(get_context(), self.name, arguments))


class ViewProvider(Provider):
    """The tools of a client's view; any other name is answered too, with what to do instead."""

    def __init__(self, gate: ToolBackend) -> None:
        super().__init__()
        self._gate = gate

    async def get_tasks(self) -> Sequence[FastMCPComponent]:
        """None: calls are forwarded, never queued here."""
        return ()

    async def _list_tools(self) -> Sequence[Tool]:
        return [
            ProxyTool(self._gate, shown) for shown in await self._gate.list_tools(get_context())
        ]

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:  # noqa: ARG002 -- FastMCP's signature
        return ProxyTool(self._gate, types.Tool(name=name, input_schema={"type": "object"}))


class InstructionsMiddleware(Middleware):
    """Puts a client's own instructions into the answer to its first request."""

    def __init__(self, gate: ToolBackend) -> None:
        self._gate = gate

    async def on_initialize(
        self,
        context: MiddlewareContext[types.InitializeRequest],
        call_next: CallNext[types.InitializeRequest, types.InitializeResult | None],
    ) -> types.InitializeResult | None:
        """Greet a client of the handshake generation."""
        return await self._add_instructions(context, await call_next(context))

    async def on_discover(
        self,
        context: MiddlewareContext[types.DiscoverRequest],
        call_next: CallNext[types.DiscoverRequest, types.DiscoverResult | dict[str, Any]],
    ) -> types.DiscoverResult | dict[str, Any]:
        """Greet a client of the stateless generation."""
        return await self._add_instructions(context, await call_next(context))

    async def on_request(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Note which log messages a client wants."""
        if context.method == "logging/setLevel" and context.fastmcp_context is not None:
            message: Any = context.message
            level = message.get("level") if isinstance(message, dict) else ""  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] -- raw from the wire
            if level in get_args(types.LoggingLevel):
                self._gate.set_level(context.fastmcp_context, cast("types.LoggingLevel", level))
        return await call_next(context)

    async def _add_instructions(self, context: MiddlewareContext[Any], result: Any) -> Any:
        if isinstance(result, types.InitializeResult | types.DiscoverResult):
            assert context.fastmcp_context is not None
            said = await self._gate.instructions(context.fastmcp_context)
            return result.model_copy(update={"instructions": said or None})
        return result


def render_tool_result(result: Result) -> ToolResult:
    """Our result in the protocol's form; what came from a server goes on as it came."""
    match result.raw:
        case types.CallToolResult() as raw:
            return ToolResult.from_mcp_result(raw)
        case types.InputRequiredResult() as raw:
            return InputRequiredToolResult(raw)
        case types.ErrorData(code=types.MISSING_REQUIRED_CLIENT_CAPABILITY) as error:
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
    """One piece of a result as the protocol has it."""
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
