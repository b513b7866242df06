"""Sink that turns events into OpenTelemetry spans and metrics by the GenAI conventions."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, cast

from ..errors import require
from ..events import (
    DiscoveryResultEvent,
    Event,
    ModelCallEvent,
    RankerTimeEvent,
    RunStartEvent,
    RunSummaryEvent,
    ToolCallEvent,
)
from .metrics import DiscoveryMetrics, run_kind

# The first two are the buckets that the GenAI conventions advise, without the largest.
_TOKEN_BOUNDS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304]
_SECOND_BOUNDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96]
_MS_BOUNDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1000]


class Meters:
    """All metric instruments, and how events are recorded with them."""

    def __init__(self, meter: Any) -> None:
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            explicit_bucket_boundaries_advisory=_TOKEN_BOUNDS,
        )
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            explicit_bucket_boundaries_advisory=_SECOND_BOUNDS,
        )
        self._latency = meter.create_histogram(
            "toolscout.discovery.duration",
            unit="ms",
            explicit_bucket_boundaries_advisory=_MS_BOUNDS,
        )
        self._per_run = meter.create_histogram(
            "toolscout.run.tokens",
            unit="{token}",
            explicit_bucket_boundaries_advisory=_TOKEN_BOUNDS,
        )
        self._searches = meter.create_counter("toolscout.discovery.searches", unit="{search}")
        self._misses = meter.create_counter("toolscout.discovery.misses", unit="{search}")
        self.hits = meter.create_counter("toolscout.discovery.hits", unit="{search}")
        self._calls = meter.create_counter("toolscout.tool.calls", unit="{call}")

    def record_model_call(self, event: ModelCallEvent, attributes: Mapping[str, Any]) -> None:
        """Record one request to a model."""
        for kind, tokens in (("input", event.input_tokens), ("output", event.output_tokens)):
            self._tokens.record(tokens, {**attributes, "gen_ai.token.type": kind})
        self._duration.record(event.took_ms / 1000, dict(attributes))

    def record_run(self, event: RunSummaryEvent, kind: str) -> None:
        """Record the tokens of a whole run, by its kind."""
        tokens = event.input_tokens + event.output_tokens
        self._per_run.record(tokens, {"toolscout.request_type": kind})

    def record_search(self, event: DiscoveryResultEvent) -> None:
        """Record one search."""
        self._searches.add(1)
        if not event.names:
            self._misses.add(1)
        self.record_latency("all", event.took_ms)

    def record_latency(self, name: str, milliseconds: float) -> None:
        """Record the duration of one ranker, or of `all` of a search."""
        self._latency.record(milliseconds, {"toolscout.arm": name})

    def record_tool_call(self, event: ToolCallEvent) -> None:
        """Record one tool call."""
        attributes = {"gen_ai.tool.name": event.tool, "error.type": event.code}
        self._calls.add(1, {k: v for k, v in attributes.items() if v})


_NAME = "toolscout"
# Runs whose end is never reported must not pile up.
_MAX_RUNS = 4096
# Our provider names to those of the conventions (`gen_ai.provider.name`).
_PROVIDERS = {
    "anthropic": "anthropic",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "gemini": "gcp.gemini",
}


class OpenTelemetry:
    """A sink that exports spans and metrics.

    A run is a span; each request to the model and each tool call is a span inside it. Text from
    users and models is never recorded. `now_ns` is the clock for the times of spans.
    """

    def __init__(
        self,
        *,
        tracer_provider: Any = None,
        meter_provider: Any = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._trace: Any = require("opentelemetry.trace", extra="otel")
        metrics: Any = require("opentelemetry.metrics", extra="otel")
        self._tracer = self._trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        self._meters = Meters(metrics.get_meter(_NAME, meter_provider=meter_provider))
        self._now_ns = now_ns
        self._discovery = DiscoveryMetrics()
        self._lock = Lock()
        self._runs: OrderedDict[str, list[Any]] = OrderedDict()

    def __call__(self, event: Event) -> None:
        """Record one event: as a span, or as an event on the span of its run."""
        match event:
            case RunStartEvent():
                self._start_run(event)
            case RunSummaryEvent():
                self._end_run(event)
            case ModelCallEvent():
                self._record_model_call(event)
            case ToolCallEvent():
                self._record_tool_call(event)
            case DiscoveryResultEvent():
                self._record_discovery(event)
            case RankerTimeEvent():
                self._meters.record_latency(event.arm, event.took_ms)
            case _:
                self._add_span_event(event)

    def _start_run(self, event: RunStartEvent) -> None:
        span = self._tracer.start_span(
            "invoke_agent",
            start_time=self._now_ns(),
            attributes=_drop_empty(
                {
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.conversation.id": event.session,
                    "gen_ai.provider.name": _provider_name(event.provider),
                    "gen_ai.request.model": event.model,
                    "toolscout.profile": event.profile,
                    "toolscout.tool_search": event.tool_search,
                }
            ),
        )
        with self._lock:
            # Two runs of one session may overlap. The events of a call name the call, not the run,
            # so events are put on the newest run.
            self._runs.setdefault(event.session, []).append(span)
            while len(self._runs) > _MAX_RUNS:
                for abandoned in self._runs.popitem(last=False)[1]:
                    abandoned.end(end_time=self._now_ns())

    def _end_run(self, event: RunSummaryEvent) -> None:
        kind = run_kind(event.searches)
        self._meters.record_run(event, kind)
        span = self._pop_run_span(event.session)
        if span is None:
            return
        _set_attributes(
            span,
            {
                "gen_ai.usage.input_tokens": event.input_tokens,
                "gen_ai.usage.output_tokens": event.output_tokens,
                "toolscout.steps": event.steps,
                "toolscout.searches": event.searches,
                "toolscout.discovered": event.discovered,
                "toolscout.stopped_by": event.stopped_by,
                "toolscout.request_type": kind,
            },
        )
        self._mark_failed(span, event.error)
        span.end(end_time=self._now_ns())

    def _record_model_call(self, event: ModelCallEvent) -> None:
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider_name(event.provider),
            "gen_ai.request.model": event.model,
        }
        self._meters.record_model_call(event, _drop_empty(attributes))
        self._record_span(
            f"chat {event.model}".strip(),
            event,
            {
                **attributes,
                "gen_ai.usage.input_tokens": event.input_tokens,
                "gen_ai.usage.output_tokens": event.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": event.cached_tokens,
                "gen_ai.usage.cache_creation.input_tokens": event.written_tokens,
                "gen_ai.response.finish_reasons": [event.reason] if event.reason else None,
                "toolscout.step": event.step,
                "toolscout.tool_search": event.tool_search,
            },
        )

    def _record_tool_call(self, event: ToolCallEvent) -> None:
        self._meters.record_tool_call(event)
        with self._lock:
            hits = self._discovery.take_hits(event.session, event.tool)
        self._meters.hits.add(hits)
        failure = event.code or "tool_error" if event.is_error else ""
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.tool,
            "gen_ai.tool.type": "function",
            "toolscout.server": event.server,
        }
        self._record_span(f"execute_tool {event.tool}", event, attributes, error=failure)

    def _record_discovery(self, event: DiscoveryResultEvent) -> None:
        with self._lock:
            self._discovery(event)
        self._meters.record_search(event)
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.tool,
            "gen_ai.tool.type": "function",
            "toolscout.found": [*event.names],
            "toolscout.confidence": event.confidence,
            "toolscout.rules_tokens": event.rules_tokens,
        }
        failure = "invalid_search" if event.is_error else ""
        self._record_span(f"execute_tool {event.tool}", event, attributes, error=failure)

    def _add_span_event(self, event: Event) -> None:
        """Add an event without a duration to the span of its run."""
        span = self._run_span(event.session)
        if span is not None:
            facts = {f"toolscout.{k}": _attribute_value(v) for k, v in event.facts.items()}
            span.add_event(event.kind, _drop_empty(facts), timestamp=self._now_ns())

    def _record_span(
        self,
        name: str,
        event: ModelCallEvent | ToolCallEvent | DiscoveryResultEvent,
        attributes: Mapping[str, Any],
        *,
        error: str = "",
    ) -> None:
        """Record a span that ends now and took as long as the event says."""
        end = self._now_ns()
        start = end - int(event.took_ms * 1_000_000)
        parent = self._run_span(event.session)
        context = self._trace.set_span_in_context(parent) if parent is not None else None
        span = self._tracer.start_span(
            name,
            context=context,
            start_time=start,
            attributes=_drop_empty({"gen_ai.conversation.id": event.session, **attributes}),
        )
        self._mark_failed(span, error)
        span.end(end_time=end)

    def _run_span(self, session: str) -> Any:
        with self._lock:
            return next(reversed(self._runs.get(session, [])), None)

    def _pop_run_span(self, session: str) -> Any:
        with self._lock:
            spans = self._runs.get(session, [])
            # Of overlapping runs, the oldest is the most likely to end first.
            span = spans.pop(0) if spans else None
            if not spans:
                self._runs.pop(session, None)
            return span

    def _mark_failed(self, span: Any, error: str) -> None:
        if error:
            span.set_attribute("error.type", error)
            span.set_status(self._trace.StatusCode.ERROR)


def _provider_name(name: str) -> str:
    return _PROVIDERS.get(name, name)


def _attribute_value(value: object) -> Any:
    if isinstance(value, str | bool | int | float):
        return value
    return (
        [str(item) for item in cast("tuple[object, ...]", value)]
        if isinstance(value, tuple)
        else str(value)
    )


def _drop_empty(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in attributes.items() if v is not None and v != ""}


def _set_attributes(span: Any, attributes: Mapping[str, Any]) -> None:
    span.set_attributes(_drop_empty(attributes))
