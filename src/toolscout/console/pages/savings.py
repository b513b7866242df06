"""Saved tokens, calls, errors and latency over time, and the health of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from starlette.responses import Response

from ...gateway.gateway import Gateway
from ...gateway.operations.health import full_health_report
from ...gateway.operations.statistics_record import OTHER_TOOLS
from ...gateway.operations.statistics_report import (
    TIME_RANGES,
    CallFigures,
    StatisticsReport,
    TimeRange,
)
from ..html import Child, Html, tag
from ..page import ConsolePage, get
from ..visit import Visit
from ..widgets import chart, facts, field, select, table, text_input

PATH = "/console/savings"
_MAX_TOOLS = 100
_OFF = 'No figures: record = "off" in the settings.'
_FIGURES = ("Calls", "Errors", "p50 ms", "p95 ms", "p99 ms")
_PERCENTILES = (
    "p95: 95 % of the calls were at least this fast. Durations are counted in ranges, so"
    " percentiles are estimates. Days begin at midnight UTC."
)


@dataclass(frozen=True, slots=True)
class _FigureFilter:
    """What the form of the page asks for."""

    time_range: TimeRange
    server: str
    tool: str


def _read_filter(query: Mapping[str, str]) -> _FigureFilter:
    wanted = query.get("range", "")
    time_range = cast("TimeRange", wanted) if wanted in TIME_RANGES else "day"
    return _FigureFilter(time_range, query.get("server", "").strip(), query.get("tool", "").strip())


async def show_savings(visit: Visit) -> Response:
    """The figures of a range, of one server or tool if the form says so, and the health."""
    where = _read_filter(visit.query)
    report = await asyncio.to_thread(_read_report, visit.gateway, where)
    health = await full_health_report(visit.gateway)
    return visit.show(
        "Savings and health",
        _render_form(visit.gateway, where, report),
        tag("p", {"class": "error"}, _OFF) if report is None else _render_report(report),
        tag("h2", {"id": "health"}, "Health"),
        _render_health(health),
    )


def _read_report(gateway: Gateway, where: _FigureFilter) -> StatisticsReport | None:
    statistics = gateway.operations.statistics
    if statistics is None:
        return None
    return statistics.report(where.time_range, server=where.server, tool=where.tool)


def _render_form(gateway: Gateway, where: _FigureFilter, report: StatisticsReport | None) -> Html:
    seen = report.servers if report is not None else ()
    servers = sorted({*gateway.upstreams.sources, *seen, where.server} - {""})
    tools = dict.fromkeys(name for _, name in (report.tools if report is not None else ()))
    known = [tag("option", {"value": name}) for name in [*tools][:_MAX_TOOLS] if name]
    return tag(
        "form",
        {"method": "get", "action": PATH, "role": "search", "aria-label": "Filters"},
        field("Range", select("range", [(n, n) for n in TIME_RANGES], where.time_range)),
        field(
            "Server",
            select("server", [("", "all"), *((n, n) for n in servers)], where.server),
        ),
        field("Tool", text_input("tool", where.tool, size=30, list="tools")),
        tag("datalist", {"id": "tools"}, known),
        tag("button", {"class": "main"}, "Show"),
        tag("a", {"href": PATH}, "Clear"),
    )


def _render_report(report: StatisticsReport) -> Child:
    calls, times = report.calls_by_time, report.times
    counts = {"calls": [row.calls for row in calls], "errors": [row.errors for row in calls]}
    if report.searches is not None:
        counts["searches"] = [row.calls for row in report.searches_by_time]
    latency = {
        "p50": [row.p50_ms for row in calls],
        "p95": [row.p95_ms for row in calls],
        "p99": [row.p99_ms for row in calls],
    }
    return (
        _render_totals(report),
        chart("Calls", times, counts),
        chart("Latency of calls", times, latency, unit="ms"),
        _render_tokens(report),
        tag("h2", None, "By server"),
        table("By server", ("Server", *_FIGURES), _server_rows(report), empty="No calls."),
        tag("h2", None, "By tool"),
        _render_tools(report),
        tag("p", {"class": "muted"}, _PERCENTILES),
    )


def _render_totals(report: StatisticsReport) -> Html:
    total, searches = report.total, report.searches
    pairs: list[tuple[str, Child]] = [
        ("calls", f"{total.calls:,}"),
        ("errors", f"{total.errors:,} ({total.errors / max(1, total.calls):.1%})"),
        ("latency", _describe_latency(total)),
    ]
    if searches is not None:
        pairs.append(("searches", f"{searches.calls:,}"))
        pairs.append(("latency of searches", _describe_latency(searches)))
        pairs.append(("tokens saved", f"{report.tokens_saved:,}"))
    return facts(pairs)


def _describe_latency(row: CallFigures) -> str | None:
    if row.p50_ms is None:
        return None
    return f"p50 {row.p50_ms:,.0f} ms, p95 {row.p95_ms:,.0f} ms, p99 {row.p99_ms:,.0f} ms"


def _render_tokens(report: StatisticsReport) -> Child:
    if report.tokens_saved is None:
        text = "Searches and saved tokens are counted for the whole gateway: clear the filters."
        return tag("p", {"class": "muted"}, text)
    saved: list[float | None] = [*report.tokens_by_time]
    return chart("Tokens saved", report.times, {"tokens": saved})


def _server_rows(report: StatisticsReport) -> Iterable[tuple[Child, ...]]:
    return ((name or "own tools", *_cells(row)) for name, row in report.servers.items())


def _render_tools(report: StatisticsReport) -> Child:
    found = [*report.tools.items()]
    rows = (
        (tool if tool != OTHER_TOOLS else "other tools", server or "own tools", *_cells(row))
        for (server, tool), row in found[:_MAX_TOOLS]
    )
    more = f"The {_MAX_TOOLS} with the most calls of {len(found):,}."
    return (
        tag("p", {"class": "muted"}, more) if len(found) > _MAX_TOOLS else None,
        table("By tool", ("Tool", "Server", *_FIGURES), rows, empty="No calls."),
    )


def _cells(row: CallFigures) -> tuple[Child, ...]:
    return (row.calls, row.errors, row.p50_ms, row.p95_ms, row.p99_ms)


def _render_health(health: dict[str, Any]) -> Child:
    servers: dict[str, dict[str, Any]] = health["servers"]
    parts: dict[str, dict[str, Any]] = health["parts"]
    pairs = [(_name_fact(key), _plain(health[key])) for key in health if key not in _TABLES]
    return (
        facts(pairs),
        [tag("p", {"class": "error"}, problem) for problem in health.get("problems", ())],
        tag("h3", None, "Servers"),
        table(
            "Servers",
            ("Server", "Status", "Tools", "More"),
            ((n, row["status"], row["tools"], _more(row)) for n, row in sorted(servers.items())),
            empty="There are no servers yet.",
        ),
        tag("h3", None, "Parts"),
        table(
            "Parts",
            ("Part", "Status", "More"),
            ((n, p["status"], _more(p)) for n, p in parts.items()),
        ),
    )


_TABLES = ("servers", "parts", "problems")
_SHOWN = ("status", "tools")
_FACT_NAMES = {"tokens_saved": "tokens saved since the first start"}


def _more(row: Mapping[str, Any]) -> str:
    shown = [key for key in row if key not in _SHOWN and row[key] not in ("", [], {}, None)]
    return ", ".join(f"{_name_fact(key)}: {_plain(row[key])}" for key in shown)


def _name_fact(key: str) -> str:
    return _FACT_NAMES.get(key) or key.removeprefix("is_").replace("_", " ")


def _plain(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case dict():
            pairs = cast("dict[str, Any]", value).items()
            return ", ".join(f"{key}: {_plain(each)}" for key, each in pairs)
        case list():
            return "; ".join(map(_plain, cast("list[Any]", value)))
        case _:
            return str(value)


PAGE = ConsolePage("Savings and health", "/savings", (get("", show_savings),))
