"""Sinks that log events: as structured records for machines, or as plain lines for a terminal."""

from __future__ import annotations

import json
import logging
from typing import Any

from ..catalog.sanitization import clean_line
from ..events import (
    ApprovalEvent,
    CatalogChangeEvent,
    ConfigAppliedEvent,
    DiscoveryResultEvent,
    Event,
    FeatureFailureEvent,
    OffloadEvent,
    SourceFailureEvent,
    StoreFailureEvent,
    ToolCallEvent,
    ToolHeldEvent,
    ToolNotFoundEvent,
    ToolRefusedEvent,
    UpstreamAsleepEvent,
    UpstreamConfiguredEvent,
    UpstreamEvent,
    UpstreamFailedEvent,
    UpstreamLostEvent,
    UpstreamReadyEvent,
    UpstreamRemovedEvent,
    VectorsLoadingEvent,
    VectorsReadyEvent,
)
from .redaction import shape

log = logging.getLogger("toolscout")
_MAX_LINE_CHARS = 300
_WARNING_KINDS = frozenset(
    {
        "feature_failed",
        "model_failed",
        "model_retry",
        "source_failed",
        "store_failed",
        "stuck",
        "tool_not_found",
        "tool_refused",
    }
)
_DEBUG_KINDS = frozenset({"search_arm", "step_start", "tool_call_start"})


def log_level(kind: str) -> int:
    """The log level of an event kind: warning for failures, debug for details, else info."""
    if kind in _WARNING_KINDS:
        return logging.WARNING
    return logging.DEBUG if kind in _DEBUG_KINDS else logging.INFO


class Logs:
    """A sink that logs each event as one record.

    Text from users and models is logged as its shape only, unless `with_content` is set. The
    record's `event` attribute has the facts as a dictionary, for structured handlers.
    """

    def __init__(self, logger: logging.Logger | None = None, *, with_content: bool = False) -> None:
        self._logger = logger or logging.getLogger("toolscout.events")
        self._with_content = with_content

    def __call__(self, event: Event) -> None:
        """Log one event."""
        level = log_level(event.kind)
        if not self._logger.isEnabledFor(level):
            return
        facts = {"session": event.session, **self._redact_facts(event)}
        text = " ".join(f"{k}={_format_value(v)}" for k, v in facts.items() if v != "")
        # Without the time of the event: the record has its own, in the format of the handler.
        envelope = {
            "id": event.id,
            "parent": event.parent,
            "principal": event.principal,
            "client": event.client,
        }
        row = {"kind": event.kind, **facts, **envelope}
        self._logger.log(level, "%s %s", event.kind, text, extra={"event": row})

    def _redact_facts(self, event: Event) -> dict[str, Any]:
        if self._with_content:
            return dict(event.facts)
        return {k: shape(v) if k in event.private else v for k, v in event.facts.items()}


class JsonLines(logging.Formatter):
    """A formatter that writes each record as one JSON object; events with their facts."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        row: dict[str, Any] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
        }
        event = getattr(record, "event", None)
        row |= event if isinstance(event, dict) else {"message": record.getMessage()}
        if record.exc_info:
            row["error"] = self.formatException(record.exc_info)
        return json.dumps(row, ensure_ascii=False, default=str)


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def log_event(event: Event) -> None:
    """A sink that logs the events that are worth a line."""
    if line := render_event(event):
        log.info("%s", line)


def render_event(event: Event) -> str:
    """An event as one line; empty for kinds that only detail another."""
    # Facts may quote a server's output, with line breaks or terminal escapes: cleaned.
    return clean_line(_render(event), cap=_MAX_LINE_CHARS)


def _render(event: Event) -> str:
    match event:
        case ToolCallEvent() | ToolRefusedEvent() | ToolNotFoundEvent() | ApprovalEvent():
            return _render_call(event)
        case DiscoveryResultEvent():
            outcome = "refused" if event.is_error else f"{len(event.names)} tools"
            return f"{event.tool}: {outcome}, {event.took_ms:.0f} ms"
        case OffloadEvent():
            return f"offloaded: {event.tool}, {event.before:,} characters"
        case FeatureFailureEvent():
            return f"{event.feature} failed during a call of {event.tool}"
        case UpstreamEvent():
            return _render_upstream(event)
        case _:
            return _render_setup(event)


def _render_call(
    event: ToolCallEvent | ToolRefusedEvent | ToolNotFoundEvent | ApprovalEvent,
) -> str:
    # The reason of a refusal or a failed feature may quote arguments, so only its code is logged.
    match event:
        case ToolCallEvent():
            outcome = f"failed ({event.code or 'error'})" if event.is_error else "ok"
            return f"call: {event.tool}: {outcome}, {event.took_ms:.0f} ms"
        case ToolRefusedEvent():
            return f"refused: {event.tool} ({event.code or 'not in view'})"
        case ToolNotFoundEvent():
            return f"refused: {event.tool} (unknown_tool)"
        case ApprovalEvent():
            return f"approval: {event.tool}: {'yes' if event.approved else 'no'}"


def _render_upstream(event: UpstreamEvent) -> str:
    match event:
        case UpstreamConfiguredEvent():
            return f"server {event.server}: configured"
        case UpstreamRemovedEvent():
            return f"server {event.server}: removed"
        case UpstreamReadyEvent():
            return f"server {event.server}: awake"
        case UpstreamAsleepEvent():
            return f"server {event.server}: asleep"
        case UpstreamLostEvent():
            return f"server {event.server}: lost. {event.reason}"
        case UpstreamFailedEvent():
            return f"server {event.server}: failed: {event.reason}"
        case _:
            return ""


def _render_setup(event: Event) -> str:
    """Lines about the catalog, the configuration and the store."""
    match event:
        case ToolHeldEvent():
            return f"held: {event.tool} of {event.server} ({event.standing})"
        case CatalogChangeEvent():
            return _render_catalog_change(event)
        case ConfigAppliedEvent():
            waiting = ", ".join(event.waiting)
            return "configuration: reloaded" + (f"; after a restart: {waiting}" if waiting else "")
        case VectorsLoadingEvent() | VectorsReadyEvent():
            return _render_vectors(event)
        case SourceFailureEvent():
            return f"source {event.source}: {event.why}"
        case StoreFailureEvent():
            return f"store: {event.why}"
        case _:
            return ""


def _render_vectors(event: VectorsLoadingEvent | VectorsReadyEvent) -> str:
    if isinstance(event, VectorsLoadingEvent):
        return "Semantic search is still loading; results are keyword-only."
    if event.done < event.total:
        missing = event.total - event.done
        return f"Semantic search is incomplete: {missing:,} of {event.total:,} vectors are missing."
    return f"Semantic search is ready: {event.done:,} vectors in {event.took_seconds:.1f} s."


def _render_catalog_change(event: CatalogChangeEvent) -> str:
    counts = (("added", event.added), ("changed", event.changed), ("removed", event.removed))
    changes = [f"{count} {word}" for word, count in counts if count]
    return f"tools: {', '.join(changes) or 'no changes'}"
