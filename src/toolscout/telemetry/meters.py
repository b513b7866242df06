"""OpenTelemetry metric instruments, and how events are recorded with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..events import (
    DiscoveryResultEvent,
    Event,
    ModelCallEvent,
    RankerTimeEvent,
    RunSummaryEvent,
    ToolCallEvent,
)
from .metrics import SearchHits, run_kind

# The first two are the buckets that the GenAI conventions advise, without the largest. The third
# are those of the MCP conventions.
_TOKEN_BOUNDS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304]
_SECOND_BOUNDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96]
_MCP_BOUNDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
_MS_BOUNDS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1000]
# Our provider names to those of the conventions (`gen_ai.provider.name`).
_PROVIDERS = {
    "anthropic": "anthropic",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "gemini": "gcp.gemini",
}

Attributes = Mapping[str, Any]


class Meters:
    """Records events as metrics."""

    def __init__(self, meter: Any) -> None:
        def histogram(name: str, unit: str, bounds: list[float]) -> Any:
            return meter.create_histogram(
                name, unit=unit, explicit_bucket_boundaries_advisory=bounds
            )

        def counter(name: str, unit: str) -> Any:
            return meter.create_counter(name, unit=unit)

        self._tokens = histogram("gen_ai.client.token.usage", "{token}", [*_TOKEN_BOUNDS])
        self._duration = histogram("gen_ai.client.operation.duration", "s", _SECOND_BOUNDS)
        self._requests = histogram("mcp.server.operation.duration", "s", _MCP_BOUNDS)
        self._tool_duration = histogram("toolscout.tool.duration", "s", _MCP_BOUNDS)
        self._calls = counter("toolscout.tool.calls", "{call}")
        self._latency = histogram("toolscout.discovery.duration", "ms", _MS_BOUNDS)
        self._searches = counter("toolscout.discovery.searches", "{search}")
        self._misses = counter("toolscout.discovery.misses", "{search}")
        self._hits = counter("toolscout.discovery.hits", "{search}")
        self._per_run = histogram("toolscout.run.tokens", "{token}", [*_TOKEN_BOUNDS])
        self._search_hits = SearchHits()

    def record(self, event: Event) -> None:
        """Record one event; kinds without metrics are ignored."""
        match event:
            case ModelCallEvent():
                self._record_model_call(event)
            case ToolCallEvent():
                self._record_tool_call(event)
            case DiscoveryResultEvent():
                self._record_search(event)
            case RankerTimeEvent():
                self._latency.record(event.took_ms, {"toolscout.arm": event.arm})
            case RunSummaryEvent():
                tokens = event.input_tokens + event.output_tokens
                self._per_run.record(tokens, {"toolscout.request_type": run_kind(event.searches)})
            case _:
                pass

    def record_request(self, seconds: float, attributes: Attributes) -> None:
        """Record one request of an MCP client."""
        self._requests.record(seconds, drop_empty(attributes))

    def _record_model_call(self, event: ModelCallEvent) -> None:
        attributes = drop_empty(model_attributes(event))
        for kind, tokens in (("input", event.input_tokens), ("output", event.output_tokens)):
            self._tokens.record(tokens, {**attributes, "gen_ai.token.type": kind})
        self._duration.record(event.took_ms / 1_000, attributes)

    def _record_tool_call(self, event: ToolCallEvent) -> None:
        attributes = drop_empty(
            {
                "gen_ai.tool.name": event.tool,
                "toolscout.server": event.server,
                "error.type": error_type(event),
            }
        )
        self._calls.add(1, attributes)
        self._tool_duration.record(event.took_ms / 1_000, attributes)
        self._hits.add(self._search_hits.take(event))

    def _record_search(self, event: DiscoveryResultEvent) -> None:
        self._searches.add(1)
        if not event.names:
            self._misses.add(1)
        self._latency.record(event.took_ms, {"toolscout.arm": "all"})
        self._search_hits.add_search(event)


def model_attributes(event: ModelCallEvent) -> dict[str, Any]:
    """The attributes that spans and metrics of a request to a model share."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider_name(event.provider),
        "gen_ai.request.model": event.model,
    }


def error_type(event: ToolCallEvent | DiscoveryResultEvent) -> str:
    """Why a call failed, for the attribute `error.type`; empty if it did not."""
    if not event.is_error:
        return ""
    return event.code or "tool_error" if isinstance(event, ToolCallEvent) else "invalid_search"


def provider_name(name: str) -> str:
    """A provider's name as the GenAI conventions write it."""
    return _PROVIDERS.get(name, name)


def drop_empty(attributes: Attributes) -> dict[str, Any]:
    """The attributes that have a value."""
    return {k: v for k, v in attributes.items() if v is not None and v != ""}
