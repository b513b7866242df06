"""Events: plain records of what happened, passed to a sink."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """One event: a stable `kind`, the session it belongs to, and its facts."""

    kind: str
    session: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


Sink = Callable[[Event], None]
"""Any function that takes an event. It must be quick and must not raise."""

KINDS: Mapping[str, str] = {
    "tool_discovery_start": "A discovery tool was called: tool, arguments as the model gave them.",
    "tool_discovery_result": "It answered: tool, names found, rules_tokens, is_error, took_ms.",
    "tools_enabled": "Tools were loaded: names, in the order of loading.",
    "tools_disabled": "Tools were unloaded: names.",
    "tool_not_found": "A name that no tool has was called: tool, near.",
    "tool_refused": "A call was not allowed to run: tool, code, why.",
    "approval": "A person or a policy was asked: tool, approved, why.",
    "tool_call": "A tool ran: tool, server, is_error, took_ms, and code where it failed.",
    "offload": "A large result was offloaded: tool, size in characters before and after.",
    "catalog_changed": "The catalog changed: added, changed, removed (counts), version.",
    "source_failed": "A source could not be listed, or not all of it: source, why.",
    "feature_failed": "A feature failed during a call, which continued: feature, tool, why.",
    "store_failed": "A session could not be saved; it is saved with the next change: why.",
}
"""Every kind of event that the toolbox emits, and the facts it carries."""


def ignore(event: Event) -> None:
    """A sink that does nothing."""


def combine_sinks(*sinks: Sink) -> Sink:
    """One sink that passes events to several, in order."""

    def emit(event: Event) -> None:
        for sink in sinks:
            sink(event)

    return emit


def guard_sink(sink: Sink) -> Sink:
    """A sink whose failures are logged once and never reach the emitter."""
    failed = False

    def emit(event: Event) -> None:
        nonlocal failed
        try:
            sink(event)
        except Exception:  # noqa: BLE001 - a broken sink must never break a call
            # Once: a sink that fails tends to fail on every event.
            if not failed:
                _log.warning("A sink failed on %s and may miss events.", event.kind, exc_info=True)
            failed = True

    return emit
