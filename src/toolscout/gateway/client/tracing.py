"""A span for each request of an MCP client, as a part of the client's own trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import mcp_types as types
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from mcp.shared.exceptions import MCPError

from ...telemetry.otel import MCPRequest, OpenTelemetry
from .sessions import read_header

# W3C trace context: MCP clients send it in `_meta`, HTTP instrumentation in headers.
_TRACE_KEYS = ("traceparent", "tracestate")
_TRANSPORTS = {"stdio": "pipe", "streamable-http": "tcp", "sse": "tcp"}


class TracingMiddleware(Middleware):
    """Traces requests, whichever handler answers them."""

    def __init__(self, telemetry: OpenTelemetry) -> None:
        self._telemetry = telemetry

    async def on_request(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]
    ) -> Any:
        """Answer a request inside a span."""
        with self._telemetry.trace_request(_describe(context)) as fail:
            try:
                result = await call_next(context)
            except MCPError as error:
                fail(str(error.error.code))
                raise
            if isinstance(result, ToolResult | types.CallToolResult) and result.is_error:
                fail("tool_error")
            return result


def _describe(context: MiddlewareContext[Any]) -> MCPRequest:
    method = context.method or ""
    name = _read_name(context.message)
    request = context.fastmcp_context.request_context if context.fastmcp_context else None
    meta: Mapping[str, Any] = dict(request.meta or {}) if request else {}
    trace_context = {key: value for key in _TRACE_KEYS if isinstance(value := meta.get(key), str)}
    transport = (context.fastmcp_context.transport if context.fastmcp_context else "") or ""
    if "traceparent" not in trace_context:
        trace_context = {key: read_header(key) for key in _TRACE_KEYS}
    return MCPRequest(
        method=method,
        tool=name if method == "tools/call" else "",
        prompt=name if method == "prompts/get" else "",
        id=str(request.request_id) if request and request.request_id is not None else "",
        session=read_header("mcp-session-id"),
        protocol=(request.protocol_version or "") if request else "",
        transport=_TRANSPORTS.get(transport, ""),
        trace_context={key: value for key, value in trace_context.items() if value},
    )


def _read_name(message: object) -> str:
    # Typed for the requests that FastMCP handles itself, raw from the wire for all others.
    is_raw = isinstance(message, Mapping)
    name = (
        cast("Mapping[str, object]", message).get("name")
        if is_raw
        else getattr(message, "name", None)
    )
    return name if isinstance(name, str) else ""
