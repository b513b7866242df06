"""A sink that logs events as structured records; `lines` has the plain lines for a terminal."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from ..events import Event
from .redaction import shape

_WARNING_KINDS = frozenset(
    {
        "feature_failed",
        "model_failed",
        "model_retry",
        "request_refused",
        "source_failed",
        "store_failed",
        "stuck",
        "tool_not_found",
        "tool_refused",
        "upstream_failed",
        "upstream_lost",
    }
)
_DEBUG_KINDS = frozenset({"content_read_start", "search_arm", "step_start", "tool_call_start"})


def log_level(kind: str) -> int:
    """The log level of an event kind: warning for failures, debug for details, else info."""
    if kind in _WARNING_KINDS:
        return logging.WARNING
    return logging.DEBUG if kind in _DEBUG_KINDS else logging.INFO


class Logs:
    """A sink that logs each event as one record.

    Text from users and models is logged as its shape only, unless `with_content` is set;
    `with_queries` logs the text of queries alone. The record's `event` attribute has the facts as a
    dictionary, for structured handlers.
    """

    def __init__(
        self,
        logger: logging.Logger | None = None,
        *,
        with_content: bool = False,
        with_queries: bool = False,
    ) -> None:
        self._logger = logger or logging.getLogger("toolscout.events")
        self._with_content = with_content
        self._public = frozenset({"queries"}) if with_queries else frozenset[str]()

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
        hidden = event.private - self._public
        return {k: shape(v) if k in hidden else v for k, v in event.facts.items()}


class JsonLines(logging.Formatter):
    """A formatter that writes each record as one JSON object; events with their facts."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        row: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, tz=UTC).isoformat(
                timespec="milliseconds"
            ),
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
