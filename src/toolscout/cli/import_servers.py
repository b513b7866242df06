"""`toolscout import`: import the servers of other MCP clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .output import json_option, print_json, print_line, print_table

if TYPE_CHECKING:
    from ..gateway.imports.importer import ImportPlan

_ACTION_TEXTS = {
    "add": "add",
    "rename": "add under another name: that one is taken",
    "same": "already there",
    "own": "leave out: it is the gateway",
}


@click.command(name="import")
@click.argument("clients", nargs=-1, metavar="[CLIENT]...")
@click.option(
    "--into",
    "target",
    type=click.Path(path_type=Path),
    default=Path("mcp.json"),
    show_default=True,
    metavar="FILE",
    help="The gateway's configuration to write.",
)
@click.option("--apply", "is_applied", is_flag=True, help="Do it; without this nothing is written.")
@click.option(
    "--point", "is_pointed", is_flag=True, help="Also put the gateway into the clients' files."
)
@json_option
def command(
    *, clients: tuple[str, ...], target: Path, is_applied: bool, is_pointed: bool, is_json: bool
) -> None:
    """Take over the MCP servers of Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Codex.

    Shows what would be done. With --apply it is done, and every file changed is backed up first.
    """
    from ..gateway.imports.clients import CLIENTS, find_client
    from ..gateway.imports.importer import (
        apply_import,
        plan_import,
        point_client,
        render_client_config,
    )

    chosen = [find_client(name) for name in clients] or list(CLIENTS)
    plan = plan_import(chosen, target, home=Path.home(), folder=Path.cwd())
    backups: list[str] = []
    files = sorted({(s.client, s.path) for s in plan.steps if s.action != "own"})
    files = files if is_pointed else []
    # Rendered once before anything is written: a file that cannot be changed is reported while
    # nothing has been changed.
    for name, path in files:
        render_client_config(find_client(name), path, target)
    if is_applied and plan.additions:
        backups.append(str(apply_import(plan) or ""))
    if is_applied:
        backups += [
            str(point_client(find_client(name), path, target) or "") for name, path in files
        ]
    if is_json:
        row = _plan_to_dict(plan, backups=[b for b in backups if b], is_applied=is_applied)
        print_json({**row, "pointed": [str(path) for _, path in files]})
        return
    print_table(
        ("client", "server", "what", "as", "command or address", "needs", "file"),
        [
            (
                s.client,
                s.server,
                _ACTION_TEXTS[s.action],
                s.name,
                s.place,
                " ".join(s.variables),
                str(s.path),
            )
            for s in plan.steps
        ],
    )
    for problem in plan.problems:
        print_line(problem, style="yellow")
    _print_summary(plan, target, backups, is_applied=is_applied)
    for name, path in files:
        done = "points" if is_applied else "would point, with --apply,"
        print_line(f"{name}: {path} {done} at the gateway.")


def _plan_to_dict(plan: ImportPlan, *, backups: list[str], is_applied: bool) -> dict[str, Any]:
    steps = [
        {
            "client": s.client,
            "file": str(s.path),
            "server": s.server,
            "action": s.action,
            "name": s.name,
            "place": s.place,
            "needs": list(s.variables),
        }
        for s in plan.steps
    ]
    return {
        "target": str(plan.target),
        "is_applied": is_applied,
        "steps": steps,
        "problems": list(plan.problems),
        "backups": backups,
    }


def _print_summary(plan: ImportPlan, target: Path, backups: list[str], *, is_applied: bool) -> None:
    if not plan.additions:
        print_line("Nothing to add.")
    elif is_applied:
        print_line(f"{len(plan.additions)} servers added to {target}.", style="green")
    else:
        print_line(
            f"{len(plan.additions)} servers would be added to {target}: run again with --apply."
        )
    for backup in backups:
        if backup:
            print_line(f"Backup: {backup}")
