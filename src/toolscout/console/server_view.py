"""How a server looks: its state and buttons, held tools with what changed, tools, decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ..gateway.upstream.pin_decisions import chosen_pins, fingerprint_offers
from ..gateway.upstream.pins import FieldChange, Pin, PinLedger, diff_pin
from ..store.log_contract import LogRow
from .html import Child, Html, join, tag
from .journal_view import filter_address, outcome_class
from .server_reader import ServedTool, ServerSummary, ToolPage
from .visit import Visit
from .widgets import checkbox, code, facts, field, moment, table, text_area, text_input

PATH = "/console/servers"
_TOOLS_PATH = "/console/playground/tools"
_MAX_HELD = 50
_MAX_SIDE_CHARS = 20_000
_STATUS_STYLES = {"ready": "good", "starting": "warn", "idle": "muted", "disabled": "muted"}
# Each button with its action, and the statuses in which it is shown; Stop is shown in all others.
_SWITCHES = (
    ("Start", "start", ("disabled", "idle", "failing")),
    ("Stop", "stop", ("disabled",)),
    ("Log in", "login", ("needs login",)),
)
_STANDINGS = {
    "new": "new",
    "changed": "changed since it was approved",
    "shadow": "uses the name of another tool",
    "revoked": "revoked",
}


def server_path(name: str) -> str:
    """The address of the page of a server."""
    return f"{PATH}/{quote(name, safe='')}"


def render_status(status: str) -> Html:
    """A status in its colour."""
    return tag("span", {"class": _STATUS_STYLES.get(status, "bad")}, status)


# The list


def render_list(servers: Sequence[ServerSummary]) -> Html:
    """All servers, each with a link to its page; APIs have none."""
    columns = ("Server", "Status", "Tools", "Held", "Calls", "Command or address")
    empty = "There are no servers yet. Add one below."
    return table("Servers", columns, map(_server_cells, servers), empty=empty)


def _server_cells(server: ServerSummary) -> tuple[Child, ...]:
    report, is_api = server.report, server.transport == "openapi"
    link = tag("a", {"href": server_path(server.name)}, server.name)
    held = report.get("held", 0)
    reason = tag("small", {"class": "muted"}, f" {report['reason']}") if _reason(report) else None
    return (
        server.name if is_api else link,
        join(render_status(server.status), reason),
        report.get("tools", 0),
        tag("strong", {"class": "warn"}, held) if held else 0,
        server.calls,
        server.place,
    )


def _reason(report: Mapping[str, Any]) -> str:
    return str(report.get("reason", ""))


def render_add_form(visit: Visit) -> Html:
    """The options of `toolscout add`."""
    command = text_input("command", size=40, placeholder="npx -y some-mcp-server --flag")
    url = text_input("url", size=40, placeholder="https://example.com/mcp")
    return tag(
        "form",
        {"method": "post", "action": PATH, "aria-label": "Add a server"},
        visit.csrf_field(),
        field("Name", text_input("name", size=14, required=True, autocomplete="off")),
        tag("label", {"class": "field wide"}, tag("span", None, "Command with arguments"), command),
        tag("label", {"class": "field wide"}, tag("span", None, "or address"), url),
        _lines_field("Variables, KEY=VALUE, one per line", "variables"),
        _lines_field("Headers, NAME: VALUE, one per line", "headers"),
        field("Folder of the command", text_input("cwd", size=20)),
        checkbox("Older SSE", "sse"),
        checkbox("Replace one of this name", "force"),
        checkbox("Do not start it first", "no_check"),
        tag("button", {"class": "main"}, "Add"),
    )


def _lines_field(label: str, name: str) -> Html:
    return tag("label", {"class": "field wide"}, tag("span", None, label), text_area(name, rows=2))


# One server


def render_state(name: str, place: str, report: Mapping[str, Any], *, is_settled: bool) -> Html:
    """The state of a server, which refreshes itself until it is settled."""
    status = str(report.get("status", "starting"))
    attributes = {"id": "state", "aria-label": "State", "class": "card"}
    if not is_settled:
        attributes |= {
            "hx-get": f"{server_path(name)}/state",
            "hx-trigger": "every 1s",
            "hx-swap": "outerHTML",
        }
    counts = [(key, report.get(key)) for key in ("tools", "held", "prompts", "resources")]
    shown: list[tuple[str, Child]] = [
        ("status", render_status(status)),
        ("reason", _reason(report)),
        ("failing since", str(report.get("since", ""))),
        *counts,
        ("running calls", report.get("in_flight")),
        ("protocol", str(report.get("protocol", ""))),
        ("command or address", place),
    ]
    problems = [tag("li", None, str(problem)) for problem in report.get("problems", ())]
    listed = tag("ul", {"class": "problems"}, problems) if problems else None
    return tag("section", attributes, facts(shown), listed)


def render_actions(visit: Visit, name: str, *, status: str, has_pins: bool) -> Child:
    """The buttons to start, stop, log in and remove; none for somebody who may not act."""
    if not visit.may_act:
        return None
    path = server_path(name)
    remove = tag(
        "form",
        {"method": "post", "action": f"{path}/remove", "aria-label": "Remove"},
        visit.csrf_field(),
        checkbox("Also delete the approvals of its tools", "forget") if has_pins else None,
        tag("button", {"class": "danger"}, f"Remove {name}"),
    )
    return tag(
        "p",
        {"class": "actions"},
        [
            (visit.button(label, f"{path}/{action}", about=name), " ")
            for label, action, statuses in _SWITCHES
            if (status in statuses) == (action != "stop")
        ],
    ), tag("details", None, tag("summary", None, "Remove this server"), remove)


# Held tools


def render_held(visit: Visit, name: str, ledger: PinLedger, held: Sequence[Pin]) -> Child:
    """The tools that nobody can call until they are approved, with what changed in each."""
    if not held:
        return tag("p", {"class": "empty"}, "No tool is held for approval.")
    shown = held[:_MAX_HELD]
    more = len(held) - len(shown)
    return (
        _render_approve_all(visit, name, ledger),
        [_render_pin(visit, name, ledger, pin) for pin in shown],
        tag("p", {"class": "muted"}, f"And {more:,} more.") if more else None,
    )


def _render_approve_all(visit: Visit, name: str, ledger: PinLedger) -> Child:
    pins = chosen_pins(ledger)
    if not visit.may_act or len(pins) < 2:
        return None
    label = f"Approve all {len(pins):,} new and changed tools"
    return tag(
        "p",
        None,
        visit.button(label, f"{server_path(name)}/approve", seen=fingerprint_offers(pins)),
    )


def _render_pin(visit: Visit, name: str, ledger: PinLedger, pin: Pin) -> Html:
    standing = _STANDINGS.get(pin.standing, pin.standing)
    changes = diff_pin(pin)
    return tag(
        "section",
        {"class": "card", "aria-label": f"Held: {pin.tool}"},
        tag("h3", None, tag("code", None, pin.tool), " ", tag("em", None, standing)),
        tag("p", None, pin.note) if pin.note else None,
        _render_changes(pin, changes) if changes else tag("p", None, "Nothing in it changed."),
        _render_choices(visit, name, ledger, pin),
    )


def _render_changes(pin: Pin, changes: Iterable[FieldChange]) -> Html:
    rows = ((c.path, _side("-", c.before), _side("+", c.after)) for c in changes)
    return table(f"Changes of {pin.tool}", ("Field", "Approved", "Offered now"), rows)


def _side(sign: str, text: str) -> Child:
    if not text:
        return tag("span", {"class": "muted"}, "not there")
    cut = text[:_MAX_SIDE_CHARS]
    more = len(text) - len(cut)
    # Each line has the sign, so that no line looks like another part.
    lines = "\n".join(f"{sign} {line}" for line in cut.split("\n"))
    style = "bad" if sign == "-" else "good"
    note = tag("span", {"class": "muted"}, f"and {more:,} more characters") if more else None
    return tag("pre", {"class": style, "tabindex": 0}, lines), note


def _render_choices(visit: Visit, name: str, ledger: PinLedger, pin: Pin) -> Child:
    if not visit.may_act:
        return None
    path, tool = server_path(name), pin.tool
    seen = fingerprint_offers(chosen_pins(ledger, (tool,)))
    refuse = visit.button("Refuse", f"{path}/revoke", about=tool, tool=tool)
    return tag(
        "p",
        {"class": "actions"},
        visit.button("Approve", f"{path}/approve", about=tool, tool=tool, seen=seen),
        " ",
        refuse if pin.standing != "revoked" else None,
    )


# Tools and decisions


def render_tools(visit: Visit, name: str, page: ToolPage, text: str) -> Html:
    """A page of the tools, with a field to find others."""
    columns = ("Tool", "State", "Tokens", "Calls", "Last call", *(("",) if visit.may_act else ()))
    rows = (_tool_cells(visit, name, tool) for tool in page.tools)
    count = f"{page.matching:,} of {page.total:,} tools" if text else f"{page.total:,} tools"
    return join(
        tag(
            "form",
            {"method": "get", "action": f"{server_path(name)}", "role": "search"},
            field("Find a tool", text_input("find", text, size=24)),
            tag("button", None, "Find"),
        ),
        tag("p", {"class": "muted"}, f"{count}, page {page.number} of {page.last}."),
        table("Tools", columns, rows, empty="No tool."),
        _render_paging(name, page, text),
    )


def _tool_cells(visit: Visit, name: str, served: ServedTool) -> tuple[Child, ...]:
    tool, is_open = served.tool, served.standing == "approved"
    link = tag("a", {"href": f"{_TOOLS_PATH}/{quote(tool.name, safe='')}"}, tool.name)
    style = "good" if is_open else "warn"
    about = served.local
    cells: tuple[Child, ...] = (
        link if is_open else tool.name,
        tag("span", {"class": style}, served.standing),
        served.tokens,
        served.calls,
        moment(served.last_call) if served.last_call is not None else "",
    )
    if not visit.may_act:
        return cells
    path = f"{server_path(name)}/revoke"
    return (*cells, visit.button("Revoke", path, about=about, tool=about) if is_open else "")


def _render_paging(name: str, page: ToolPage, text: str) -> Child:
    def link(label: str, number: int, rel: str) -> Html:
        address = filter_address(server_path(name), {"find": text, "page": str(number)})
        return tag("a", {"href": address, "rel": rel}, label)

    links = [
        link("Previous", page.number - 1, "prev") if page.number > 1 else None,
        link("Next", page.number + 1, "next") if page.number < page.last else None,
    ]
    is_paged = page.last > 1
    return tag("nav", {"class": "paging", "aria-label": "More tools"}, links) if is_paged else None


def render_decisions(rows: Sequence[LogRow]) -> Html:
    """Who approved and revoked what, and when."""
    cells = (
        (
            moment(row.time),
            row.tool,
            tag("span", {"class": outcome_class(row.outcome or "")}, row.outcome),
            row.principal or "anonymous",
            row.client,
        )
        for row in rows
    )
    columns = ("Time", "Tool", "Decision", "By", "With")
    return table("Decisions", columns, cells, empty="Nobody has approved or revoked anything yet.")


def render_log(lines: Sequence[str]) -> Html:
    """The end of the log."""
    if not lines:
        return tag("p", {"class": "empty"}, "It has written nothing yet.")
    return code("\n".join(lines))
