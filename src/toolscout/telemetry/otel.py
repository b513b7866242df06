"""Sink that turns events into OpenTelemetry spans and metrics by the GenAI and MCP conventions."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, cast

from ..catalog.sanitization import clean_line
from ..errors import require
from ..events import (
    DiscoveryResultEvent,
    DiscoveryStartEvent,
    Event,
    ModelCallEvent,
    RankerTimeEvent,
    RunStartEvent,
    RunSummaryEvent,
    ToolCallEvent,
    ToolCallStartEvent,
    current_parent,
)
from .meters import Attributes, Meters, drop_empty, error_type, model_attributes, provider_name
from .metrics import run_kind
from .redaction import shape

_NAME = "toolscout"
# Spans whose end is never reported must not pile up.
_MAX_OPEN_SPANS = 4096
# A model may call a tool by any text, and the text becomes the name of a span.
_MAX_NAME_CHARS = 100
# Reasons and messages of errors, which may quote arguments, a prompt or a server's output, and
# arguments themselves: their shape has keys, which a model may invent.
_FREE_TEXT = frozenset({"arguments", "why", "reason", "problem", "error"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MCPRequest:
    """A request of an MCP client, as its span describes it."""

    method: str
    tool: str = ""
    prompt: str = ""
    id: str = ""
    session: str = ""
    protocol: str = ""
    transport: str = ""
    # The W3C trace context that came with the request: `traceparent`, and perhaps `tracestate`.
    trace_context: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def span_name(self) -> str:
        """The method, and the tool or prompt that is asked for."""
        target = clean_line(self.tool or self.prompt, cap=_MAX_NAME_CHARS)
        return f"{self.method} {target}".strip()

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the span, by the MCP conventions."""
        return {
            "mcp.method.name": self.method,
            "mcp.protocol.version": self.protocol,
            "mcp.session.id": self.session,
            "jsonrpc.request.id": self.id,
            "network.transport": self.transport,
            "gen_ai.operation.name": "execute_tool" if self.tool else "",
            "gen_ai.tool.name": clean_line(self.tool, cap=_MAX_NAME_CHARS),
            "gen_ai.prompt.name": clean_line(self.prompt, cap=_MAX_NAME_CHARS),
        }


@dataclass(frozen=True, slots=True)
class _OpenSpan:
    span: Any
    # The context to return to at the end; None if the span was never made the current one.
    outer: Any = None


class OpenTelemetry:
    """A sink that exports spans and metrics.

    A run of an agent is a span, each request to the model and each tool call is one inside it.
    Around calls that come through the gateway there is a span of the client's request. Text from
    users and models is exported only `with_content`. `now_ns` is the clock for the times of spans;
    `on_close` ends the exporters.
    """

    def __init__(
        self,
        *,
        tracer_provider: Any = None,
        meter_provider: Any = None,
        with_content: bool = False,
        now_ns: Callable[[], int] = time.time_ns,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._trace: Any = require("opentelemetry.trace", extra="otel")
        self._context: Any = require("opentelemetry.context", extra="otel")
        w3c: Any = require("opentelemetry.trace.propagation.tracecontext", extra="otel")
        metrics: Any = require("opentelemetry.metrics", extra="otel")
        self._extract = w3c.TraceContextTextMapPropagator().extract
        self._tracer = self._trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        self._meters = Meters(metrics.get_meter(_NAME, meter_provider=meter_provider))
        self._with_content = with_content
        self._now_ns = now_ns
        self._on_close = on_close
        self._lock = Lock()
        # Runs and tool calls by the id of their event, requests of clients by the id of the span.
        self._open: OrderedDict[str, _OpenSpan] = OrderedDict()

    def __call__(self, event: Event) -> None:
        """Record one event: as a span, or as an event on the span that it is a part of."""
        self._meters.record(event)
        match event:
            case RunStartEvent():
                self._start_run(event)
            case RunSummaryEvent():
                self._end_run(event)
            case ModelCallEvent():
                self._record_model_call(event)
            case ToolCallStartEvent():
                self._start_tool_call(event)
            case ToolCallEvent():
                self._end_tool_call(event)
            case DiscoveryResultEvent():
                self._record_discovery(event)
            case RankerTimeEvent() | DiscoveryStartEvent():
                pass  # the one is a metric only, the other is the start of a span
            case _:
                self._add_span_event(event)

    def close(self) -> None:
        """Send the remaining data that a collector accepts in time."""
        self._on_close()

    # Requests of MCP clients

    @contextmanager
    def trace_request(self, request: MCPRequest) -> Generator[Callable[[str], None]]:
        """Make a span of a client's request, with what happens in it inside.

        The yielded function marks it as failed, with a value for `error.type`.
        """
        started = self._now_ns()
        span = self._tracer.start_span(
            request.span_name,
            context=self._extract(request.trace_context),
            kind=self._trace.SpanKind.SERVER,
            start_time=started,
            attributes=drop_empty(request.attributes),
        )
        failure = ""

        def fail(error: str) -> None:
            nonlocal failure
            failure = error

        key = self._key_of(span)
        self._add_open(key, _OpenSpan(span))
        token = self._context.attach(self._trace.set_span_in_context(span))
        try:
            yield fail
        except BaseException as error:
            is_cancelled = isinstance(error, asyncio.CancelledError)
            failure = failure or ("cancelled" if is_cancelled else type(error).__qualname__)
            raise
        finally:
            self._context.detach(token)
            self._pop_open(key)
            self._end(span, failure)
            took = (self._now_ns() - started) / 1_000_000_000
            self._meters.record_request(
                took, {"mcp.method.name": request.method, "error.type": failure}
            )

    # Runs of an agent

    def _start_run(self, event: RunStartEvent) -> None:
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": provider_name(event.provider),
            "gen_ai.request.model": event.model,
            "toolscout.profile": event.profile,
            "toolscout.tool_search": event.tool_search,
        }
        span = self._start("invoke_agent", event, attributes)
        self._add_open(event.id, _OpenSpan(span))

    def _end_run(self, event: RunSummaryEvent) -> None:
        run = self._pop_open(event.parent)
        if run is None:
            return
        run.span.set_attributes(
            {
                "gen_ai.usage.input_tokens": event.input_tokens,
                "gen_ai.usage.output_tokens": event.output_tokens,
                "toolscout.steps": event.steps,
                "toolscout.searches": event.searches,
                "toolscout.discovered": event.discovered,
                "toolscout.stopped_by": event.stopped_by,
                "toolscout.request_type": run_kind(event.searches),
            }
        )
        self._end(run.span, event.error)

    def _record_model_call(self, event: ModelCallEvent) -> None:
        attributes = {
            **model_attributes(event),
            "gen_ai.usage.input_tokens": event.input_tokens,
            "gen_ai.usage.output_tokens": event.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": event.cached_tokens,
            "gen_ai.usage.cache_creation.input_tokens": event.written_tokens,
            "gen_ai.response.finish_reasons": [event.reason] if event.reason else None,
            "toolscout.step": event.step,
            "toolscout.tool_search": event.tool_search,
        }
        self._record_span(f"chat {event.model}".strip(), event, attributes)

    # Tool calls and searches

    def _start_tool_call(self, event: ToolCallStartEvent) -> None:
        attributes = _tool_attributes(event.tool, server=event.server)
        if self._with_content:
            attributes["gen_ai.tool.call.arguments"] = _to_json(event.arguments)
        span = self._start(f"execute_tool {event.tool}", event, attributes)
        # The current span while the tool runs, in the task that called it: an MCP server gets
        # it in `_meta`, and spans of other instrumentation become parts of it.
        outer = self._context.get_current()
        self._context.attach(self._trace.set_span_in_context(span))
        self._add_open(event.parent, _OpenSpan(span, outer))

    def _end_tool_call(self, event: ToolCallEvent) -> None:
        call = self._pop_open(event.id)
        if call is None:  # a separate emitter, which reports only the end
            attributes = _tool_attributes(event.tool, server=event.server)
            self._record_span(
                f"execute_tool {event.tool}", event, attributes, error=error_type(event)
            )
            return
        # Not detached by its token, which another task could not use.
        if self._trace.get_current_span() is call.span:
            self._context.attach(call.outer)
        self._end(call.span, error_type(event))

    def _record_discovery(self, event: DiscoveryResultEvent) -> None:
        attributes = {
            **_tool_attributes(event.tool),
            "toolscout.found": [*event.names],
            "toolscout.confidence": event.confidence,
            "toolscout.rules_tokens": event.rules_tokens,
        }
        if self._with_content:
            attributes["gen_ai.retrieval.query.text"] = "\n".join(event.queries)
        self._record_span(f"execute_tool {event.tool}", event, attributes, error=error_type(event))

    def _add_span_event(self, event: Event) -> None:
        """Add an event without a duration to the span that it is a part of."""
        span = self._parent_of(event)
        if span is not None:
            facts = {f"toolscout.{k}": _attribute_value(v) for k, v in self._facts(event).items()}
            span.add_event(event.kind, drop_empty(facts), timestamp=self._now_ns())

    def _facts(self, event: Event) -> dict[str, Any]:
        if self._with_content:
            return dict(event.facts)
        return {
            name: shape(value) if name in event.private else value
            for name, value in event.facts.items()
            if name not in _FREE_TEXT
        }

    # Spans

    def _record_span(
        self,
        name: str,
        event: ModelCallEvent | ToolCallEvent | DiscoveryResultEvent,
        attributes: Attributes,
        *,
        error: str = "",
    ) -> None:
        """Record a span that ends now and took as long as the event says."""
        end = self._now_ns()
        span = self._start(name, event, attributes, start=end - int(event.took_ms * 1_000_000))
        self._end(span, error, end=end)

    def _start(
        self, name: str, event: Event, attributes: Attributes, *, start: int | None = None
    ) -> Any:
        """Start a span inside the one that the event is a part of."""
        parent = self._parent_of(event)
        envelope = {
            "gen_ai.conversation.id": event.session,
            "enduser.id": event.principal,
            "toolscout.client": event.client,
        }
        return self._tracer.start_span(
            name,
            # Without our own parent, it is a part of the current span of the surrounding program.
            context=self._trace.set_span_in_context(parent) if parent is not None else None,
            start_time=self._now_ns() if start is None else start,
            attributes=drop_empty({**envelope, **attributes}),
        )

    def _end(self, span: Any, error: str = "", *, end: int | None = None) -> None:
        if error:
            span.set_attribute("error.type", error)
            span.set_status(self._trace.StatusCode.ERROR)
        span.end(end_time=self._now_ns() if end is None else end)

    def _parent_of(self, event: Event) -> Any:
        """The open span of the call, the run or the client's request that an event is a part of."""
        request = self._key_of(self._trace.get_current_span())
        # A call has no span before it runs, and none if it is refused. Its other events belong
        # to the span around the call.
        around = current_parent(event.parent or event.id)
        with self._lock:
            found = (self._open.get(key) for key in (event.parent, around, request) if key)
            return next((each.span for each in found if each is not None), None)

    def _key_of(self, span: Any) -> str:
        context = span.get_span_context()
        return f"span {context.span_id}" if context.is_valid else ""

    def _add_open(self, key: str, entry: _OpenSpan) -> None:
        abandoned: list[_OpenSpan] = []
        with self._lock:
            if key:
                self._open[key] = entry
            while len(self._open) > _MAX_OPEN_SPANS:
                abandoned.append(self._open.popitem(last=False)[1])
        for each in abandoned:
            each.span.end(end_time=self._now_ns())

    def _pop_open(self, key: str) -> _OpenSpan | None:
        with self._lock:
            return self._open.pop(key, None)


def _tool_attributes(tool: str, *, server: str = "") -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.type": "function",
        "toolscout.server": server,
    }


def _attribute_value(value: object) -> Any:
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, tuple):
        return [str(item) for item in cast("tuple[object, ...]", value)]
    return None if value is None else _to_json(value)


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
