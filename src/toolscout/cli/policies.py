"""`toolscout policies`: what a caller may see and call, and which policy decides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..catalog.catalog import Catalog
from ..errors import UnknownToolError
from .catalog_options import load_with_held, nearest_names
from .config_options import find_servers_file
from .output import json_option, print_json, print_line, print_note, print_table
from .pins import config_option

if TYPE_CHECKING:
    from ..catalog.tool import Tool
    from ..gateway.access_reasons import AccessReason
    from ..gateway.setup import Setup

EXIT_REFUSED = 1


@click.command(name="policies")
@click.argument("principal", default="")
@click.option(
    "--role",
    type=click.Choice(["user", "admin"]),
    default="user",
    show_default=True,
    help="The role of the caller, for policies with roles.",
)
@click.option("--tool", "tool_name", metavar="NAME", help="Only this tool, with every policy.")
@config_option
@json_option
def command(
    *, principal: str, role: str, tool_name: str | None, path: Path | None, is_json: bool
) -> int:
    """Show what PRINCIPAL may see and call, and which policy decides.

    Without PRINCIPAL, the caller is anonymous. Tools are those of the last listing of each server.
    With --tool, the exit code is 1 if the caller may not use it.
    """
    from ..gateway.access_reasons import explain_access
    from ..gateway.identity.roles import Identity
    from ..gateway.setup import Setup

    file = find_servers_file(path)
    setup = Setup.read(file)
    catalog, _ = load_with_held((), file)
    caller = Identity(principal, "admin" if role == "admin" else "user")
    policies = setup.settings.policies
    if tool_name is not None:
        tool = _find_tool(catalog, tool_name)
        reason = explain_access(policies, caller, tool)
        _print_reason(tool, reason, is_json=is_json)
        return 0 if reason.is_allowed else EXIT_REFUSED
    _print_tools(
        setup, [(t, explain_access(policies, caller, t)) for t in catalog], is_json=is_json
    )
    return 0


def _find_tool(catalog: Catalog, name: str) -> Tool:
    tool = catalog.get(name)
    if tool is None:
        near = nearest_names(catalog, name)
        hint = f"Did you mean {', '.join(near)}?" if near else "Search for it: toolscout search"
        raise UnknownToolError(f"There is no tool {name!r}.", hint=hint)
    return tool


def _print_reason(tool: Tool, reason: AccessReason, *, is_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"policy": r.policy, "applies": r.is_for_caller, "admits": r.is_admitted, "why": r.text}
        for r in reason.policies
    ]
    if is_json:
        facts = {"tool": tool.name, "allowed": reason.is_allowed, "why": reason.text}
        print_json({**facts, "policies": rows})
        return
    print_line(f"{tool.name}: {'allowed' if reason.is_allowed else 'refused'}. {reason.text}")
    cells = [(r["policy"], _answer(r["applies"]), _answer(r["admits"]), r["why"]) for r in rows]
    if cells:
        print_table(("policy", "for this caller", "admits", "why"), cells)


def _print_tools(setup: Setup, found: list[tuple[Tool, AccessReason]], *, is_json: bool) -> None:
    if is_json:
        print_json(
            [
                {"tool": tool.name, "server": tool.server, "allowed": r.is_allowed, "why": r.text}
                for tool, r in found
            ]
        )
        return
    rows = [(t.name, "yes" if r.is_allowed else "no", r.text) for t, r in found]
    print_table(("tool", "allowed", "why"), rows)
    count = sum(reason.is_allowed for _, reason in found)
    print_note(f"{count} of {len(found)} tools, by {len(setup.settings.policies)} policies.")


def _answer(value: object) -> str:
    return "yes" if value else "no"
