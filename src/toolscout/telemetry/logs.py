"""Sinks that log events: as structured records for machines, or as plain lines for a terminal."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from ..catalog.sanitization import clean_line
from ..events import Event
from .redaction import shape

log = logging.getLogger("toolscout")
Facts = Mapping[str, Any]
_MAX_LINE_CHARS = 300
# What users and models wrote.
_PRIVATE_FACTS = frozenset({"arguments", "queries", "text"})
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
_DEBUG_KINDS = frozenset({"search_arm", "step_start"})


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
        row = {"kind": event.kind, "session": event.session, **self._redact_facts(event.facts)}
        text = " ".join(
            f"{k}={_format_value(v)}" for k, v in row.items() if k != "kind" and v != ""
        )
        self._logger.log(level, "%s %s", event.kind, text, extra={"event": row})

    def _redact_facts(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        if self._with_content:
            return dict(facts)
        return {k: shape(v) if k in _PRIVATE_FACTS else v for k, v in facts.items()}


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
    render = _RENDERERS.get(event.kind)
    # Facts may quote a server's output, with line breaks or terminal escapes: cleaned.
    return clean_line(render(event.facts), cap=_MAX_LINE_CHARS) if render else ""


def _render_call(facts: Facts) -> str:
    outcome = f"failed ({facts.get('code') or 'error'})" if facts.get("is_error") else "ok"
    return f"call: {facts['tool']}: {outcome}, {facts.get('took_ms', 0):.0f} ms"


def _render_search(facts: Facts) -> str:
    found = len(facts.get("names", ()))
    outcome = "refused" if facts.get("is_error") else f"{found} tools"
    return f"{facts['tool']}: {outcome}, {facts.get('took_ms', 0):.0f} ms"


def _render_catalog_change(facts: Facts) -> str:
    changes = [f"{facts[key]} {key}" for key in ("added", "changed", "removed") if facts.get(key)]
    return f"tools: {', '.join(changes) or 'no changes'}"


def _render_config_change(facts: Facts) -> str:
    waiting = ", ".join(facts.get("waiting", ()))
    return "configuration: reloaded" + (f"; after a restart: {waiting}" if waiting else "")


# The reason of a refusal or a failed feature may quote arguments, so only its code is logged.
_RENDERERS: Mapping[str, Callable[[Facts], str]] = {
    "tool_call": _render_call,
    "tool_discovery_result": _render_search,
    "tool_refused": lambda f: f"refused: {f['tool']} ({f.get('code') or 'not in view'})",
    "tool_not_found": lambda f: f"refused: {f['tool']} (unknown_tool)",
    "approval": lambda f: f"approval: {f['tool']}: {'yes' if f.get('approved') else 'no'}",
    "tool_held": lambda f: f"held: {f['tool']} of {f['server']} ({f.get('standing', '')})",
    "offload": lambda f: f"offloaded: {f['tool']}, {f.get('before', 0):,} characters",
    "catalog_changed": _render_catalog_change,
    "config_applied": _render_config_change,
    "upstream_configured": lambda f: f"server {f['server']}: configured",
    "upstream_removed": lambda f: f"server {f['server']}: removed",
    "upstream_ready": lambda f: f"server {f['server']}: awake",
    "upstream_asleep": lambda f: f"server {f['server']}: asleep",
    "upstream_lost": lambda f: f"server {f['server']}: lost. {f.get('reason', '')}",
    "upstream_failed": lambda f: f"server {f['server']}: failed: {f.get('reason', '')}",
    "source_failed": lambda f: f"source {f.get('source', '')}: {f.get('why', '')}",
    "store_failed": lambda f: f"store: {f.get('why', '')}",
    "feature_failed": lambda f: f"{f.get('feature', '')} failed during a call of {f['tool']}",
}
