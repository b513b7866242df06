"""`toolscout import`: take over the servers of other clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .output import json_option, print_json, print_table, say

_SAYS = {
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
    from ..gateway.clients import CLIENTS, client
    from ..gateway.importers import Plan, apply, plan, point, pointed

    chosen = [client(name) for name in clients] or list(CLIENTS)
    found: Plan = plan(chosen, target, home=Path.home(), folder=Path.cwd())
    backups: list[str] = []
    files = sorted({(s.client, s.path) for s in found.steps if s.action != "own"})
    files = files if is_pointed else []
    for name, path in files:
        pointed(client(name), path, target)  # whatever cannot be done is told before anything is
    if is_applied and found.added:
        backups.append(str(apply(found) or ""))
    if is_applied:
        backups += [str(point(client(name), path, target) or "") for name, path in files]
    if is_json:
        row = _row(found, backups=[b for b in backups if b], is_applied=is_applied)
        print_json({**row, "pointed": [str(path) for _, path in files]})
        return
    print_table(
        ("client", "server", "what", "as", "command or address", "needs", "file"),
        [
            (
                s.client,
                s.server,
                _SAYS[s.action],
                s.name,
                s.place,
                " ".join(s.variables),
                str(s.path),
            )
            for s in found.steps
        ],
    )
    for problem in found.problems:
        say(problem, style="yellow")
    _tell(found, target, backups, is_applied=is_applied)
    for name, path in files:
        done = "points" if is_applied else "would point, with --apply,"
        say(f"{name}: {path} {done} at the gateway.")


def _row(found: Any, *, backups: list[str], is_applied: bool) -> dict[str, Any]:
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
        for s in found.steps
    ]
    return {
        "target": str(found.target),
        "is_applied": is_applied,
        "steps": steps,
        "problems": list(found.problems),
        "backups": backups,
    }


def _tell(found: Any, target: Path, backups: list[str], *, is_applied: bool) -> None:
    if not found.added:
        say("Nothing to add.")
    elif is_applied:
        say(f"{len(found.added)} servers added to {target}.", style="green")
    else:
        say(f"{len(found.added)} servers would be added to {target}: run again with --apply.")
    for backup in backups:
        if backup:
            say(f"Backup: {backup}")
