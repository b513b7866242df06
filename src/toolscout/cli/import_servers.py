"""`toolscout import`: import the servers of other MCP clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..config import Config
from ..folders import user_servers_file
from ..program import command_line
from .output import count_noun, json_option, print_json, print_line, print_note, print_table, warn
from .progress import progress

if TYPE_CHECKING:
    from ..gateway.imports.importer import ImportPlan, ImportStep
    from ..gateway.imports.undo import WrittenFile

_ACTION_TEXTS = {
    "add": "add",
    "rename": "add under another name, because the name is taken",
    "same": "already there",
    "own": "skip: it is the gateway",
}


@click.command(name="import")
@click.argument("clients", nargs=-1, metavar="[CLIENT]...")
@click.option(
    "--into",
    "target",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The gateway's configuration to write.  [default: your own list]",
)
@click.option(
    "--apply",
    "is_applied",
    is_flag=True,
    help="Apply the changes; without this nothing is written.",
)
@click.option(
    "--point",
    "is_pointed",
    is_flag=True,
    help="Also replace the servers in the clients' files by the gateway.",
)
@click.option("--undo", "is_undone", is_flag=True, help="Restore all files of the last import.")
@click.option(
    "--force", is_flag=True, help="With --undo: also restore files that were edited since."
)
@json_option
def command(
    *,
    clients: tuple[str, ...],
    target: Path | None,
    is_applied: bool,
    is_pointed: bool,
    is_undone: bool,
    force: bool,
    is_json: bool,
) -> None:
    """Import the MCP servers of the clients you use.

    Clients: Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Codex, Zed, Gemini CLI,
    Copilot CLI, goose and opencode. Without options, this only shows what an import would do.
    --apply does it, after a backup of every file that changes; --undo restores the files of the
    last import.
    """
    if is_undone:
        if clients or is_applied or is_pointed:
            raise click.UsageError(
                "--undo restores the whole last import: remove the other options."
            )
        _undo(is_forced=force, is_json=is_json)
        return
    target = target or user_servers_file()
    with progress("Reading the files of your clients") as step:
        from ..gateway.imports.clients import CLIENTS, find_client
        from ..gateway.imports.importer import plan_import, render_target
        from ..gateway.imports.undo import write_files

        chosen = [find_client(name) for name in clients] or list(CLIENTS)
        plan = plan_import(chosen, target, home=Path.home(), folder=Path.cwd())
        # Rendered before anything is written: a file that cannot be changed is reported while
        # nothing has been changed.
        pointed = _render_clients(plan, target) if is_pointed else {}
        texts = {target: render_target(plan), **pointed} if plan.additions else pointed
        step("Writing files (another command may be changing them)", 0, 0)
        written = write_files(texts, _records_folder()) if is_applied else []
    if is_json:
        row = _plan_to_dict(plan, written, is_applied=is_applied)
        print_json({**row, "pointed": [str(path) for path in pointed]})
        return
    _print_plan(plan)
    _print_summary(plan, written, is_applied=is_applied)
    for path in pointed:
        done = "now uses" if is_applied else "would use"
        print_line(f"{path} {done} the gateway{'' if is_applied else ' (with --apply)'}.")
    _print_next_steps(plan, is_applied=is_applied, is_pointed=is_pointed)


def _records_folder() -> Path:
    return Config.read().state_folder / "imports"


def _render_clients(plan: ImportPlan, target: Path) -> dict[Path, str]:
    """The new text of every client's file that has servers."""
    from ..gateway.imports.clients import find_client, is_project_file
    from ..gateway.imports.pointing import render_client_config

    home, folder = Path.home(), Path.cwd()
    # By path, since two clients may share a file.
    owners = {s.path: find_client(s.client) for s in reversed(plan.steps) if s.action != "own"}
    return {
        path: render_client_config(
            owner,
            path,
            target,
            project=folder if is_project_file(owner, path, home=home, folder=folder) else None,
        )
        for path, owner in sorted(owners.items())
    }


def _undo(*, is_forced: bool, is_json: bool) -> None:
    from ..gateway.imports.undo import undo_last

    with progress("Restoring files (another command may be changing them)"):
        restored = undo_last(_records_folder(), is_forced=is_forced)
        clients = _client_files()
    if is_json:
        print_json(
            {
                "restored": [f.path for f in restored if f.backup],
                "deleted": [f.path for f in restored if not f.backup],
            }
        )
        return
    for file in restored:
        what = "Restored" if file.backup else "Deleted (it was new):"
        print_line(f"{what} {file.path}", style="green")
    if any(Path(file.path).resolve() in clients for file in restored):
        print_line("Restart the clients whose files were restored.")


def _client_files() -> set[Path]:
    """The files of all clients, here and in the home folder."""
    from ..gateway.imports.clients import CLIENTS, config_files

    home, folder = Path.home(), Path.cwd()
    return {p.resolve() for c in CLIENTS for p in config_files(c, home=home, folder=folder)}


def _print_plan(plan: ImportPlan) -> None:
    columns = ("client", "server", "what", "as", "command or address", "needs", "only in", "file")
    print_table(
        columns,
        [
            (
                s.client,
                s.server,
                _action_text(s),
                s.name,
                s.place,
                " ".join(s.variables),
                s.project,
                str(s.path),
            )
            for s in plan.steps
        ],
    )
    for problem in plan.problems:
        warn(problem)
    for step in plan.additions:
        if step.unset_variables:
            warn(
                f"{step.name} needs {', '.join(step.unset_variables)}, which is not set here: set"
                " it where the gateway starts."
            )


def _action_text(step: ImportStep) -> str:
    is_disabled = step.is_disabled and step.action in ("add", "rename")
    return f"{_ACTION_TEXTS[step.action]} (disabled)" if is_disabled else _ACTION_TEXTS[step.action]


def _plan_to_dict(
    plan: ImportPlan, written: list[WrittenFile], *, is_applied: bool
) -> dict[str, Any]:
    steps = [
        {
            "client": s.client,
            "file": str(s.path),
            "server": s.server,
            "action": s.action,
            "disabled": s.is_disabled,
            "name": s.name,
            "place": s.place,
            "needs": list(s.variables),
            "unset": list(s.unset_variables),
            "project": s.project,
        }
        for s in plan.steps
    ]
    return {
        "target": str(plan.target),
        "is_applied": is_applied,
        "steps": steps,
        "problems": list(plan.problems),
        "backups": [file.backup for file in written if file.backup],
    }


def _print_summary(plan: ImportPlan, written: list[WrittenFile], *, is_applied: bool) -> None:
    count = count_noun(len(plan.additions), "server")
    if not plan.additions:
        print_line("Nothing to add.")
    elif is_applied:
        print_line(f"{count} added to {plan.target}.", style="green")
    else:
        print_line(f"{count} would be added to {plan.target}.")
    for file in written:
        if file.backup:
            print_line(f"Backup: {file.backup}")


def _print_next_steps(plan: ImportPlan, *, is_applied: bool, is_pointed: bool) -> None:
    option = () if plan.target == user_servers_file() else ("--config", str(plan.target))
    if not is_applied and plan.additions:
        print_note("Nothing is written yet: run again with --apply.")
    if not is_applied:
        return
    print_note(f"Next: {command_line('check', *option)} tests whether they all work.")
    if is_pointed:
        print_note("Then restart your clients: each has one server now, toolscout.")
    else:
        print_note(
            f"Then run {command_line('serve', *option)}, and connect your client to it; or run"
            " again with --apply --point, which changes the clients' files."
        )
    print_note(f"{command_line('import', '--undo')} restores all files.")
