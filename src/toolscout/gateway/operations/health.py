"""Answer `GET /health` and `GET /metrics`: for people, for probes and for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from ...sources.mcp.mcp_source import ServerState
from ...telemetry.prometheus import UP_STATUSES
from ..gateway import Gateway


def health_report(gateway: Gateway) -> dict[str, Any]:
    """The answer to `GET /health`."""
    held = {name: len(s.ledger.pins_on_hold) for name, s in gateway.upstreams.sources.items()}
    found = _upstreams_report(
        gateway.upstreams.states(),
        is_ready=gateway.is_ready,
        tools=len(gateway.box.catalog),
        held=held,
    )
    found["tokens_saved"] = gateway.savings.total
    problems = [gateway.complaint] if gateway.complaint else []
    apis = {api.name for api in gateway.setup.apis}
    problems += [f"{n}: {why}" for n, why in gateway.box.problems.items() if n in apis]
    problems += ["The audit log cannot be written."] if gateway.audit.is_failing else []
    if problems:
        found |= {"status": "degraded", "problems": problems}
    return found


def render_metrics(gateway: Gateway) -> str:
    """The same in figures."""
    gauges = {"tools": len(gateway.box.catalog), "tokens_saved": gateway.savings.total}
    servers = [(state.server, state.status) for state in gateway.upstreams.states()]
    return gateway.meters.render(servers, gauges)


def _upstreams_report(
    states: Iterable[ServerState], *, is_ready: bool, tools: int, held: Mapping[str, int]
) -> dict[str, Any]:
    """The answer to `GET /health`: `status` is for people, `live` and `ready` for probes."""
    servers = {s.server: _server_report(s, held.get(s.server, 0)) for s in states}
    is_well = all(s["status"] in UP_STATUSES and not s["held"] for s in servers.values())
    return {
        "status": ("ok" if is_well else "degraded") if is_ready else "starting",
        "live": True,
        "ready": is_ready,
        "tools": tools,
        "servers": servers,
    }


def _server_report(state: ServerState, held: int) -> dict[str, Any]:
    row = {k: v for k, v in asdict(state).items() if k != "server" and v not in ("", 0, 0.0, ())}
    return {**row, "status": state.status, "tools": state.tools, "held": held}
