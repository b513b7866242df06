"""The first page of the console: the state of the gateway at a glance."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from ...gateway.operations.health import full_health_report
from ..html import Child, tag
from ..page import ConsolePage, get
from ..visit import Visit
from ..widgets import table


async def show_overview(visit: Visit) -> Response:
    """The status, its problems, and a line for each server."""
    report = await full_health_report(visit.gateway)
    return visit.show(
        "Overview",
        tag("p", None, "Status: ", tag("strong", {"class": "status"}, report["status"])),
        _list_problems(report.get("problems", [])),
        tag("h2", None, "Servers"),
        _tabulate_servers(report["servers"]),
    )


def _list_problems(problems: list[str]) -> Child:
    if not problems:
        return None
    return tag("ul", {"class": "problems"}, (tag("li", None, problem) for problem in problems))


def _tabulate_servers(servers: dict[str, dict[str, Any]]) -> Child:
    rows = ((name, row["status"], row["tools"]) for name, row in sorted(servers.items()))
    empty = "There are no servers yet. Add one: toolscout add NAME -- COMMAND"
    return table("Servers", ("Server", "Status", "Tools"), rows, empty=empty)


PAGE = ConsolePage("Overview", "", (get("", show_overview),))
