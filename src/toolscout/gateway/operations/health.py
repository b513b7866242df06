"""Pages over HTTP: `/`, `/health` and its parts, `/health/live` and `/metrics`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from fastmcp.server.server import FastMCP
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from ...sources.server_status import UP_STATUSES, OverallStatus, ServerStatus, overall_status
from ...toolbox.health import Health
from ..gateway import Gateway
from ..identity.page_callers import PageCallers
from ..identity.roles import Identity, is_admin
from ..upstream.pinned_source import PinnedSource
from .index_page import Visitor, add_index_page
from .visible_reports import (
    report_rule,
    server_report,
    usable_tools,
    visible_health,
    visible_metrics,
)

LIVENESS_PATH = "/health/live"
_UNAVAILABLE = 503
_UNAUTHORISED = 401
_NOT_FOUND = 404
_FAILED = 500
_LOGIN = "Authentication required: send a bearer token, or log in with a browser at /login."
_NO_MEMORY = "Entities are extracted only with memory: set memory, or use the profile cms."
_STORE_DOWN = "The store of the gateway cannot be used: conversations are not saved."
_DISK_FULL = "The disk of the gateway is full or cannot be written to."
# Probes and load balancers have no token. They get only this, without the names of servers.
_PUBLIC_FIELDS = ("status", "live", "ready")


def add_routes(
    app: FastMCP[Any], gateway: Gateway, callers: PageCallers, *, console_path: str = ""
) -> None:
    """Serve a page about the gateway, health and metrics beside the MCP endpoint.

    The page links to the web console at `console_path`, if there is one.
    """

    async def read_status() -> OverallStatus:
        return (await asyncio.to_thread(health_report, gateway))["status"]

    async def describe_visitor(request: Request) -> Visitor:
        caller = await callers.identify(request)
        session = callers.cookies.find(request)
        servers = server_statuses(gateway) if is_admin(caller) else {}
        return Visitor(
            caller,
            servers,
            csrf=session.csrf if session else "",
            console_path=console_path if gateway.setup.options.console else "",
        )

    add_index_page(app, status=read_status, describe_visitor=describe_visitor)

    @app.custom_route("/health", ["GET"])
    async def get_health(request: Request) -> Response:
        report = await _read_health(gateway, await callers.identify(request))
        return JSONResponse(report, status_code=200 if report["ready"] else _UNAVAILABLE)

    @app.custom_route("/health/extraction", ["GET"])
    async def get_extraction_health(request: Request) -> Response:
        caller = await callers.identify(request)
        if caller is None:
            return _ask_for_login()
        is_limited = report_rule(gateway.setup, caller) is not None
        return extraction_response(await gateway.box.health(), has_facts=not is_limited)

    @app.custom_route(LIVENESS_PATH, ["GET"])
    async def get_liveness(_: Request) -> Response:
        return PlainTextResponse("live")

    @app.custom_route("/metrics", ["GET"])
    async def get_metrics(request: Request) -> Response:
        caller = await callers.identify(request)
        if caller is None:
            return _ask_for_login()
        rule = report_rule(gateway.setup, caller)
        text = render_metrics(gateway) if rule is None else visible_metrics(gateway, rule)
        return PlainTextResponse(text)

    _ = (get_health, get_extraction_health, get_liveness, get_metrics)


def _ask_for_login() -> Response:
    challenge = {"WWW-Authenticate": "Bearer"}
    return PlainTextResponse(_LOGIN, status_code=_UNAUTHORISED, headers=challenge)


async def _read_health(gateway: Gateway, caller: Identity | None) -> dict[str, Any]:
    """The body of `GET /health`, as far as a caller may know it."""
    if caller is not None and (rule := report_rule(gateway.setup, caller)) is not None:
        return await _add_shared_problems(gateway, visible_health(gateway, rule))
    report = await full_health_report(gateway)
    return {key: report[key] for key in _PUBLIC_FIELDS} if caller is None else report


def server_statuses(gateway: Gateway) -> dict[str, str]:
    """The status of every server in one word."""
    return {name: row["status"] for name, row in health_report(gateway)["servers"].items()}


async def _add_shared_problems(gateway: Gateway, report: dict[str, Any]) -> dict[str, Any]:
    """A report for a caller with limits, with the problems that affect all callers alike."""
    # In words of their own: the full texts name paths, and may name what the caller may not see.
    store = (await gateway.box.health()).parts["store"]
    is_full = bool(await asyncio.to_thread(gateway.operations.check_disk))
    problems = [_STORE_DOWN] if store.status != "ok" else []
    problems += [_DISK_FULL] if is_full else []
    if not problems:
        return report
    is_ready = report["status"] == "ready"
    return {**report, "status": "degraded" if is_ready else report["status"], "problems": problems}


def extraction_response(health: Health, *, has_facts: bool = True) -> Response:
    """The status of the memory, which extracts entities from results."""
    part = health.parts.get("memory")
    if part is None:
        return JSONResponse({"status": "off", "why": _NO_MEMORY}, status_code=_NOT_FOUND)
    status_code = _FAILED if part.status == "error" else 200
    report: dict[str, Any] = {"status": part.status}
    if has_facts:
        report |= part.facts
    return JSONResponse(report, status_code=status_code)


async def full_health_report(gateway: Gateway) -> dict[str, Any]:
    """The body of `GET /health`; a store that is down or a full disk degrades the status."""
    # In a thread: the first report after a listing checks the schemas of its tools.
    report = await asyncio.to_thread(health_report, gateway)
    health = await gateway.box.health()
    report["parts"] = health.to_dict()["parts"]
    full = await asyncio.to_thread(gateway.operations.check_disk)
    problems = [full] if full else []
    store = health.parts["store"]
    if store.status != "ok":
        problems.append(f"store: {store.facts.get('why', '')}")
    if problems:
        report["problems"] = [*report.get("problems", []), *problems]
    if report["status"] == "ready" and (problems or health.status != "ok"):
        report["status"] = "degraded"
    return report


def health_report(gateway: Gateway) -> dict[str, Any]:
    """The body of `GET /health`, but for the toolbox's own parts."""
    # A copy: this runs in a thread, while the event loop adds and removes servers.
    sources = list(gateway.upstreams.sources.values())
    known = gateway.operations.definition_problems
    servers = {
        source.name: server_report(
            source.inner.state,
            len(source.uncallable_tools()),
            problems=[p for problems in known.find(source.inner).values() for p in problems],
        )
        for source in sources
    }
    disabled = [s.name for s in gateway.setup.document.servers if s.is_disabled]
    servers |= {name: {"status": "disabled", "tools": 0, "held": 0} for name in disabled}
    problems = _find_problems(gateway, sources)
    tools = usable_tools(gateway.box.catalog, sources)
    report: dict[str, Any] = {
        # `status` is for people; `live` and `ready` are for probes. A failing server degrades the
        # status but not readiness, because the others can still be used.
        "status": _gateway_status(gateway, servers, tools=tools, has_problems=bool(problems)),
        "live": True,
        "ready": gateway.is_ready and not _is_without_servers(gateway, servers),
        "tools": tools,
        "servers": servers,
        "tokens_saved": gateway.operations.savings.total,
    }
    if gateway.operations.forwarding:
        report["audit_forwarding"] = gateway.operations.forwarding.report()
    return {**report, "problems": problems} if problems else report


def _find_problems(gateway: Gateway, sources: Iterable[PinnedSource]) -> list[str]:
    """What is wrong, except with single MCP servers: their entries say that."""
    problems = gateway.operations.problems()
    # Before all servers are listed, a name may be that of a tool to come.
    if gateway.upstream.is_complete and (
        unmatched := gateway.box.profile.describe_unmatched_names(gateway.box.catalog)
    ):
        problems.append(f"profile: {unmatched}")
    # APIs have no entry.
    apis = {api.name for api in gateway.setup.apis}
    problems += [f"{n}: {why}" for n, why in gateway.box.problems.items() if n in apis]
    problems += [s.problem for s in sources if s.problem]
    problems += [f"overlay: {problem}" for problem in gateway.box.overlay_problems]
    return problems


def _gateway_status(
    gateway: Gateway,
    servers: Mapping[str, Mapping[str, Any]],
    *,
    tools: int,
    has_problems: bool,
) -> OverallStatus:
    if not gateway.is_ready:
        return "starting"
    is_flawed = any(row["held"] or row.get("problems") for row in servers.values())
    return overall_status(
        [row["status"] for row in servers.values()],
        tools=tools,
        has_problems=has_problems or is_flawed,
        is_waiting=any(
            name in servers and _may_be_used(gateway, name, servers[name]["status"])
            for name in gateway.upstreams.servers_without_listing()
        ),
    )


def _is_without_servers(gateway: Gateway, servers: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether there are servers or APIs, and none of them works or may still start by itself."""
    enabled = {name: row for name, row in servers.items() if row["status"] != "disabled"}
    is_down = bool(enabled) and not any(
        _may_be_used(gateway, name, row["status"]) for name, row in enabled.items()
    )
    apis = {api.name for api in gateway.setup.apis}
    return is_down and apis <= gateway.box.problems.keys()


def _may_be_used(gateway: Gateway, server: str, status: ServerStatus) -> bool:
    """Whether a server works, may still start, or waits for logins of callers."""
    # Callers can log in only while the gateway answers.
    own = {s.name for s in gateway.setup.document.servers if s.oauth.is_per_principal}
    return status in UP_STATUSES or (status == "needs login" and server in own)


def render_metrics(gateway: Gateway) -> str:
    """The body of `GET /metrics`, in Prometheus' text format."""
    gauges = {"tools": len(gateway.box.catalog), "tokens_saved": gateway.operations.savings.total}
    servers = [(state.server, state.status) for state in gateway.upstreams.states()]
    forwarding = gateway.operations.forwarding.metrics()
    return gateway.operations.metrics.render(servers, gauges) + forwarding
