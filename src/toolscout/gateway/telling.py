"""What happens, a line for each thing, for whoever watches: no arguments, no secrets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from ..catalog.clean import clean_line
from ..events import Event

log = logging.getLogger("toolscout")
Facts = Mapping[str, Any]
_LONGEST = 300


def tell(event: Event) -> None:
    """A sink that logs what is worth a line."""
    if line := line_of(event):
        log.info("%s", line)


def line_of(event: Event) -> str:
    """An event in one line; nothing for those that only detail another."""
    says = _LINES.get(event.kind)
    return clean_line(says(event.facts), cap=_LONGEST) if says else ""


def _call(facts: Facts) -> str:
    outcome = f"failed ({facts.get('code') or 'error'})" if facts.get("is_error") else "ok"
    return f"call: {facts['tool']}: {outcome}, {facts.get('took_ms', 0):.0f} ms"


def _search(facts: Facts) -> str:
    found = len(facts.get("names", ()))
    outcome = "refused" if facts.get("is_error") else f"{found} tools"
    return f"{facts['tool']}: {outcome}, {facts.get('took_ms', 0):.0f} ms"


def _changed(facts: Facts) -> str:
    counts = (facts.get(key, 0) for key in ("added", "changed", "removed"))
    return "tools: {} came, {} changed, {} went".format(*counts)


def _applied(facts: Facts) -> str:
    waiting = ", ".join(facts.get("waiting", ()))
    return "configuration: read again" + (f"; after a restart: {waiting}" if waiting else "")


# What a refusal or a failed feature says of arguments may quote them: only its code is told.
_LINES: Mapping[str, Callable[[Facts], str]] = {
    "tool_call": _call,
    "tool_discovery_result": _search,
    "tool_refused": lambda f: f"refused: {f['tool']} ({f.get('code') or 'not in view'})",
    "tool_not_found": lambda f: f"refused: {f['tool']} (unknown_tool)",
    "approval": lambda f: f"approval: {f['tool']}: {'yes' if f.get('approved') else 'no'}",
    "tool_held": lambda f: f"held: {f['tool']} of {f['server']} ({f.get('standing', '')})",
    "offload": lambda f: f"kept aside: {f['tool']}, {f.get('before', 0):,} characters",
    "catalog_changed": _changed,
    "config_applied": _applied,
    "upstream_configured": lambda f: f"server {f['server']}: configured",
    "upstream_removed": lambda f: f"server {f['server']}: removed",
    "upstream_ready": lambda f: f"server {f['server']}: awake",
    "upstream_asleep": lambda f: f"server {f['server']}: asleep",
    "upstream_lost": lambda f: f"server {f['server']}: lost. {f.get('reason', '')}",
    "upstream_failed": lambda f: f"server {f['server']}: failed: {f.get('reason', '')}",
    "source_failed": lambda f: f"source {f.get('source', '')}: {f.get('why', '')}",
    "store_failed": lambda f: f"store: {f.get('why', '')}",
    "feature_failed": lambda f: f"{f.get('feature', '')} failed beside a call of {f['tool']}",
}
