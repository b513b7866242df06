"""What a caller may see and call, and which policy decides."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from itertools import islice

from starlette.responses import Response

from ...catalog.catalog import Catalog
from ...catalog.tool import Tool
from ...gateway.access_reasons import AccessReason, explain_access
from ...gateway.identity.roles import Identity
from ...gateway.settings import AccessPolicy
from ..callers import caller_fields, known_principals, read_caller
from ..html import Child, Html, tag
from ..page import ConsolePage, get
from ..visit import Visit
from ..widgets import field, table, text_input

PATH = "/console/policies"
_MAX_TOOLS = 200


async def show_policies(visit: Visit) -> Response:
    """The policies, what a caller sees of each server, and the decision on one tool."""
    caller, name = read_caller(visit.query), visit.query.get("tool", "").strip()
    principals = await asyncio.to_thread(known_principals, visit.gateway)
    policies = visit.gateway.setup.settings.policies
    catalog = visit.gateway.box.catalog
    return visit.show(
        "Policies",
        _render_form(caller, name, principals),
        _render_decision(catalog, policies, caller, name) if name else None,
        tag("h2", None, f"What {caller.name or 'an anonymous caller'} sees"),
        await asyncio.to_thread(_render_visible, visit, caller),
        tag("h2", None, "Policies"),
        _render_policies(policies),
    )


def _render_form(caller: Identity, name: str, principals: tuple[str, ...]) -> Html:
    return tag(
        "form",
        {"method": "get", "action": PATH},
        caller_fields(caller, principals),
        field("Tool", text_input("tool", name, size=30)),
        tag("button", {"class": "main"}, "Explain"),
    )


def _render_decision(
    catalog: Catalog, policies: Mapping[str, AccessPolicy], caller: Identity, name: str
) -> Child:
    tool = catalog.get(name)
    if tool is None:
        text = (
            f"There is no tool {name!r} in the catalog. Tools that are held for approval are not."
        )
        return tag("p", {"class": "error", "role": "alert"}, text)
    reason = explain_access(policies, caller, tool)
    verdict, style = ("allowed", "good") if reason.is_allowed else ("refused", "bad")
    rows = [
        (r.policy, "yes" if r.is_for_caller else "no", "yes" if r.is_admitted else "no", r.text)
        for r in reason.policies
    ]
    return tag(
        "section",
        {"class": "card", "aria-label": "Decision"},
        tag("p", None, tag("code", None, name), ": ", tag("strong", {"class": style}, verdict)),
        tag("p", None, reason.text),
        table("Policies", ("Policy", "For this caller", "Admits", "Why"), rows) if rows else None,
    )


def _render_visible(visit: Visit, caller: Identity) -> Html:
    """How many tools of each server, and the first of them one by one."""
    # Of thousands of tools most share a reason; a server with its counts is read faster, and the
    # rule alone decides faster than it explains.
    catalog, setup = visit.gateway.box.catalog, visit.gateway.setup
    rule = setup.rule_for(caller)
    total = Counter(tool.server for tool in catalog)
    allowed = total if rule is None else Counter(tool.server for tool in filter(rule, catalog))
    rows = ((server or "own tools", allowed[server], total[server]) for server in sorted(total))
    columns = ("Server", "Allowed", "Tools")
    shown = [
        (tool, explain_access(setup.settings.policies, caller, tool))
        for tool in islice(catalog, _MAX_TOOLS)
    ]
    more = _render_tools(shown, more=len(catalog) - len(shown))
    return tag(
        "div",
        None,
        table("Servers", columns, rows, empty="There are no tools."),
        tag("details", None, tag("summary", None, "Tool by tool"), more),
    )


def _render_tools(found: list[tuple[Tool, AccessReason]], *, more: int) -> Child:
    rows = (
        (tool.name, "allowed" if reason.is_allowed else "refused", reason.text)
        for tool, reason in found
    )
    note = tag("p", {"class": "muted"}, f"And {more:,} more: name one above.") if more else None
    return table("Tools", ("Tool", "Decision", "Why"), rows), note


def _render_policies(policies: Mapping[str, AccessPolicy]) -> Html:
    rows = (
        (
            name,
            ", ".join(policy.principals),
            ", ".join(policy.roles) or "all",
            ", ".join(policy.servers) or "all",
            ", ".join(policy.tools) or "all",
            ", ".join(policy.deny) or "none",
            "yes" if policy.read_only else "no",
        )
        for name, policy in policies.items()
    )
    columns = ("Policy", "Principals", "Roles", "Servers", "Tools", "Deny", "Read-only")
    return table("Policies", columns, rows, empty="There are none: every caller sees every tool.")


PAGE = ConsolePage("Policies", "/policies", (get("", show_policies),))
