"""How a gateway is, for people, for probes and for Prometheus."""

from __future__ import annotations

from typing import Any

from .gateway import Gateway
from .health import report


def health(gateway: Gateway) -> dict[str, Any]:
    """The answer to `GET /health`."""
    held = {name: len(s.ledger.held) for name, s in gateway.upstreams.sources.items()}
    found = report(
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


def metrics(gateway: Gateway) -> str:
    """The same in figures."""
    gauges = {"tools": len(gateway.box.catalog), "tokens_saved": gateway.savings.total}
    return gateway.meters.text(gateway.upstreams.states(), gauges)
