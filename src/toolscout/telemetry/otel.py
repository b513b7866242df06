"""Events as OpenTelemetry spans and metrics, in the words of its GenAI conventions."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, cast

from ..errors import require
from ..events import Event
from .meters import Meters
from .tally import Tally, kind_of

_NAME = "toolscout"
_RUNS = 4096
# What the conventions call our providers.
_PROVIDERS = {
    "anthropic": "anthropic",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "gemini": "gcp.gemini",
}


class OpenTelemetry:
    """A sink that makes spans and metrics.

    A run is a span, each request of the model and each tool call one inside it. What users and
    models wrote is never recorded. `now_ns` is the clock that spans are dated by.
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
        self._tally = Tally()
        self._lock = Lock()
        self._runs: OrderedDict[str, list[Any]] = OrderedDict()

    def __call__(self, event: Event) -> None:
        """Record one event: as a span, or as a note on the span of its run."""
        match event.kind:
            case "run_start":
                self._run_start(event)
            case "run_end":
                self._run_end(event)
            case "model_call":
                self._model_call(event)
            case "tool_call":
                self._tool_call(event)
            case "tool_discovery_result":
                self._discovery(event)
            case "search_arm":
                self._meters.arm(str(event.facts["arm"]), float(event.facts["took_ms"]))
            case _:
                self._noted(event)

    def _run_start(self, event: Event) -> None:
        facts = event.facts
        span = self._tracer.start_span(
            "invoke_agent",
            start_time=self._now_ns(),
            attributes=_given(
                {
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.conversation.id": event.session,
                    "gen_ai.provider.name": _provider(facts),
                    "gen_ai.request.model": facts.get("model"),
                    "toolscout.profile": facts.get("profile"),
                    "toolscout.tool_search": facts.get("tool_search"),
                }
            ),
        )
        with self._lock:
            # Two runs of one conversation may overlap; what happens is then the newer one's.
            self._runs.setdefault(event.session, []).append(span)
            while len(self._runs) > _RUNS:
                for lost in self._runs.popitem(last=False)[1]:
                    lost.end(end_time=self._now_ns())

    def _run_end(self, event: Event) -> None:
        facts = event.facts
        kind = kind_of(int(facts.get("searches", 0)))
        self._meters.run(facts, kind)
        span = self._ended(event.session)
        if span is None:
            return
        _put(
            span,
            {
                "gen_ai.usage.input_tokens": facts.get("input_tokens"),
                "gen_ai.usage.output_tokens": facts.get("output_tokens"),
                "toolscout.steps": facts.get("steps"),
                "toolscout.searches": facts.get("searches"),
                "toolscout.discovered": facts.get("discovered"),
                "toolscout.stopped_by": facts.get("stopped_by"),
                "toolscout.request_type": kind,
            },
        )
        self._failed(span, facts.get("error"))
        span.end(end_time=self._now_ns())

    def _model_call(self, event: Event) -> None:
        facts = event.facts
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _provider(facts),
            "gen_ai.request.model": facts.get("model"),
        }
        self._meters.model(facts, _given(attributes))
        self._span(
            f"chat {facts.get('model', '')}".strip(),
            event,
            {
                **attributes,
                "gen_ai.usage.input_tokens": facts.get("input_tokens"),
                "gen_ai.usage.output_tokens": facts.get("output_tokens"),
                "gen_ai.usage.cache_read.input_tokens": facts.get("cached_tokens"),
                "gen_ai.usage.cache_creation.input_tokens": facts.get("written_tokens"),
                "gen_ai.response.finish_reasons": _listed(facts.get("reason")),
                "toolscout.step": facts.get("step"),
                "toolscout.tool_search": facts.get("tool_search"),
            },
            error=facts.get("error"),
        )

    def _tool_call(self, event: Event) -> None:
        facts = event.facts
        tool = str(facts.get("tool", ""))
        self._meters.call(facts)
        with self._lock:
            hits = self._tally.hit(event.session, tool)
        self._meters.hits.add(hits)
        failure = facts.get("code") or "tool_error" if facts.get("is_error") else None
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.type": "function",
            "toolscout.server": facts.get("server"),
        }
        self._span(f"execute_tool {tool}", event, attributes, error=failure)

    def _discovery(self, event: Event) -> None:
        facts = event.facts
        tool = str(facts.get("tool", ""))
        with self._lock:
            self._tally(event)
        self._meters.discovery(facts)
        names = cast("tuple[str, ...]", facts.get("names") or ())
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.type": "function",
            "toolscout.found": [*names],
            "toolscout.confidence": facts.get("confidence"),
            "toolscout.rules_tokens": facts.get("rules_tokens"),
        }
        failure = "invalid_search" if facts.get("is_error") else None
        self._span(f"execute_tool {tool}", event, attributes, error=failure)

    def _noted(self, event: Event) -> None:
        """What has no length of its own becomes an event of its run's span."""
        span = self._run_of(event.session)
        if span is not None:
            facts = {f"toolscout.{k}": _attribute(v) for k, v in event.facts.items()}
            span.add_event(event.kind, _given(facts), timestamp=self._now_ns())

    def _span(
        self, name: str, event: Event, attributes: Mapping[str, Any], *, error: object = None
    ) -> None:
        """A span that has just ended, as long as the event says it took."""
        end = self._now_ns()
        start = end - int(float(event.facts.get("took_ms", 0.0)) * 1_000_000)
        parent = self._run_of(event.session)
        context = self._trace.set_span_in_context(parent) if parent is not None else None
        span = self._tracer.start_span(
            name,
            context=context,
            start_time=start,
            attributes=_given({"gen_ai.conversation.id": event.session, **attributes}),
        )
        self._failed(span, error)
        span.end(end_time=end)

    def _run_of(self, session: str) -> Any:
        with self._lock:
            return next(reversed(self._runs.get(session, [])), None)

    def _ended(self, session: str) -> Any:
        with self._lock:
            spans = self._runs.get(session, [])
            span = spans.pop(0) if spans else None
            if not spans:
                self._runs.pop(session, None)
            return span

    def _failed(self, span: Any, error: object) -> None:
        if error:
            span.set_attribute("error.type", str(error))
            span.set_status(self._trace.StatusCode.ERROR)


def _provider(facts: Mapping[str, Any]) -> str:
    name = str(facts.get("provider", ""))
    return _PROVIDERS.get(name, name)


def _listed(value: object) -> list[str] | None:
    return [str(value)] if value else None


def _attribute(value: object) -> Any:
    if isinstance(value, str | bool | int | float):
        return value
    return (
        [str(item) for item in cast("tuple[object, ...]", value)]
        if isinstance(value, tuple)
        else str(value)
    )


def _given(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in attributes.items() if v is not None and v != ""}


def _put(span: Any, attributes: Mapping[str, Any]) -> None:
    span.set_attributes(_given(attributes))
