"""Events as structured log records: one line each, readable by people and by machines."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from ..events import Event
from .shape import shape

_PRIVATE = frozenset({"arguments", "queries", "text"})
_WARNINGS = frozenset(
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
_DETAILS = frozenset({"search_arm", "step_start"})


def level_of(kind: str) -> int:
    """What went wrong warns, what only helps to develop is for debugging, the rest informs."""
    if kind in _WARNINGS:
        return logging.WARNING
    return logging.DEBUG if kind in _DETAILS else logging.INFO


class Logs:
    """A sink that logs.

    What a model or a user wrote is logged as its shape only, unless `with_content`. Facts are in
    the record's `event` attribute, for handlers that want them apart.
    """

    def __init__(self, logger: logging.Logger | None = None, *, with_content: bool = False) -> None:
        self._logger = logger or logging.getLogger("toolscout.events")
        self._with_content = with_content

    def __call__(self, event: Event) -> None:
        """Log one event."""
        level = level_of(event.kind)
        if not self._logger.isEnabledFor(level):
            return
        row = {"kind": event.kind, "session": event.session, **self._shown(event.facts)}
        text = " ".join(f"{k}={_plain(v)}" for k, v in row.items() if k != "kind" and v != "")
        self._logger.log(level, "%s %s", event.kind, text, extra={"event": row})

    def _shown(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        if self._with_content:
            return dict(facts)
        return {k: shape(v) if k in _PRIVATE else v for k, v in facts.items()}


class JsonLines(logging.Formatter):
    """A formatter that writes each record as one JSON object, events with their facts."""

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


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
