"""Pages over HTTP: `/`, `/health` and its parts, `/health/live` and `/metrics`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from fastmcp.server.server import FastMCP
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from ...sources.mcp.mcp_source import ServerState
from ...telemetry.prometheus import UP_STATUSES
from ...toolbox.health import Health
from ..gateway import Gateway
from .index_page import add_index_page

_UNAVAILABLE = 503
_UNAUTHORISED = 401
_NOT_FOUND = 404
_FAILED = 500
_LOGIN = "Authentication required: send a bearer token."
_NO_MEMORY = "Entities are extracted only with memory: set memory, or use the profile cms."
# Probes and load balancers have no token. They get only this, without the names of servers.
_PUBLIC_FIELDS = ("status", "live", "ready")


def add_routes(app: FastMCP[Any], gateway: Gateway) -> None:
    """Serve a page about the gateway, health and metrics beside the MCP endpoint."""

    # FastMCP authenticates only its own endpoint, so these routes check the token themselves.
    async def is_authenticated(request: Request) -> bool:
        if app.auth is None:
            return True
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and await app.auth.verify_token(token) is not None

    add_index_page(app)

    @app.custom_route("/health", ["GET"])
    async def get_health(request: Request) -> Response:
        report = health_report(gateway)
        report["parts"] = (await gateway.box.health()).to_dict()["parts"]
        if not await is_authenticated(request):
            report = {key: report[key] for key in _PUBLIC_FIELDS}
        return JSONResponse(report, status_code=200 if report["ready"] else _UNAVAILABLE)

    @app.custom_route("/health/extraction", ["GET"])
    async def get_extraction_health(request: Request) -> Response:
        if not await is_authenticated(request):
            return PlainTextResponse(_LOGIN, status_code=_UNAUTHORISED)
        return extraction_response(await gateway.box.health())

    @app.custom_route("/health/live", ["GET"])
    async def get_liveness(_: Request) -> Response:
        return PlainTextResponse("live")

    @app.custom_route("/metrics", ["GET"])
    async def get_metrics(request: Request) -> Response:
        if not await is_authenticated(request):
            return PlainTextResponse(_LOGIN, status_code=_UNAUTHORISED)
        return PlainTextResponse(render_metrics(gateway))

    _ = (get_health, get_extraction_health, get_liveness, get_metrics)


def extraction_response(health: Health) -> Response:
    """The status of the memory, which extracts entities from results."""
    part = health.parts.get("memory")
    if part is None:
        return JSONResponse({"status": "off", "why": _NO_MEMORY}, status_code=_NOT_FOUND)
    status_code = _FAILED if part.status == "error" else 200
    return JSONResponse({"status": part.status, **part.facts}, status_code=status_code)


def health_report(gateway: Gateway) -> dict[str, Any]:
    """The body of `GET /health`, but for the toolbox's own parts."""
    held = {name: len(s.ledger.pins_on_hold) for name, s in gateway.upstreams.sources.items()}
    report = _upstreams_report(
        gateway.upstreams.states(),
        is_ready=gateway.is_ready,
        tools=len(gateway.box.catalog),
        held=held,
        disabled=[s.name for s in gateway.setup.document.servers if s.is_disabled],
    )
    report["tokens_saved"] = gateway.operations.savings.total
    problems = gateway.operations.problems()
    # Before all servers are listed, a name may be that of a tool to come.
    if gateway.upstream.is_complete and (
        unmatched := gateway.box.profile.describe_unmatched_names(gateway.box.catalog)
    ):
        problems.append(f"profile: {unmatched}")
    # Problems of MCP servers are in their own entries; APIs have no entry.
    apis = {api.name for api in gateway.setup.apis}
    problems += [f"{n}: {why}" for n, why in gateway.box.problems.items() if n in apis]
    problems += [f"overlay: {problem}" for problem in gateway.box.overlay_problems]
    if problems:
        report["problems"] = problems
    if not report["ready"]:
        return report
    if _is_without_servers(report["servers"]) and apis <= gateway.box.problems.keys():
        report |= {"status": "failing", "ready": False}
    elif problems:
        report["status"] = "degraded"
    return report


def _is_without_servers(servers: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether there are servers, and none of them works or may still start by itself."""
    statuses = {row["status"] for row in servers.values()} - {"disabled"}
    return bool(statuses) and statuses.isdisjoint(UP_STATUSES)


def render_metrics(gateway: Gateway) -> str:
    """The body of `GET /metrics`, in Prometheus' text format."""
    gauges = {"tools": len(gateway.box.catalog), "tokens_saved": gateway.operations.savings.total}
    servers = [(state.server, state.status) for state in gateway.upstreams.states()]
    return gateway.operations.metrics.render(servers, gauges)


def _upstreams_report(
    states: Iterable[ServerState],
    *,
    is_ready: bool,
    tools: int,
    held: Mapping[str, int],
    disabled: Iterable[str],
) -> dict[str, Any]:
    servers = {s.server: _server_report(s, held.get(s.server, 0)) for s in states}
    is_well = all(s["status"] in UP_STATUSES and not s["held"] for s in servers.values())
    servers |= {name: {"status": "disabled", "tools": 0, "held": 0} for name in disabled}
    # `status` is for people; `live` and `ready` are for probes. A failing server degrades the
    # status but not readiness, because the others can still be used. Only if all of them fail is
    # there nothing left to use.
    return {
        "status": ("ok" if is_well else "degraded") if is_ready else "starting",
        "live": True,
        "ready": is_ready,
        "tools": tools,
        "servers": servers,
    }


def _server_report(state: ServerState, held: int) -> dict[str, Any]:
    # Empty fields are left out, except those that a reader expects in every entry.
    row = {k: v for k, v in asdict(state).items() if k != "server" and v not in ("", 0, 0.0, ())}
    row.pop("failing_seconds", None)
    if state.failures:
        since = datetime.now(UTC) - timedelta(seconds=state.failing_seconds)
        row["since"] = since.isoformat(timespec="seconds")
    return {**row, "status": state.status, "tools": state.tools, "held": held}
