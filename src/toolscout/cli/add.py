"""`toolscout add`: add a server to the list, once it has shown that it works."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigError
from ..folders import user_servers_file
from ..program import command_line
from .config_options import config_words, servers_option
from .output import json_option, print_json, print_line, warn
from .progress import progress
from .servers import print_reload_note

if TYPE_CHECKING:
    from ..gateway.operations.server_check import NewServerReport


@click.command(name="add")
@click.argument("name")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARGUMENT]...]")
@click.option("--url", default="", metavar="URL", help="The address of a remote server.")
@click.option(
    "--sse", "is_sse", is_flag=True, help="The remote server uses the older SSE transport."
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="Send this header to the server.",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="KEY[=VALUE]",
    help="A variable for the server; KEY alone copies it from the gateway's environment.",
)
@click.option("--cwd", default="", metavar="FOLDER", help="The folder in which the command runs.")
@servers_option
@click.option("--force", is_flag=True, help="Replace a server of the same name.")
@click.option("--no-check", is_flag=True, help="Do not start the server first.")
@json_option
def command(
    *,
    name: str,
    path: Path | None,
    force: bool,
    no_check: bool,
    is_json: bool,
    **options: Any,
) -> None:
    """Add an MCP server: a command after --, or a --url.

    The server is started once, to check that it works and to count what its tools cost.
    """
    from ..gateway.config_file.server_file import ServerFile, restrict_to_owner
    from ..gateway.config_file.server_options import build_entry, secret_advice

    file = ServerFile(path or user_servers_file())
    entry = build_entry(name, **options)
    advice = list(secret_advice(name, entry))
    known = file.find(name)
    if known is not None and not force:
        raise ConfigError(
            f"There is already a server {known!r} in {file.path}.",
            hint="Replace it with --force, or choose another name.",
        )
    report = None if no_check else _check(name, entry, file.path)
    file.put(name, entry, replaces=force)
    if advice:
        restrict_to_owner(file.path)
    if is_json:
        row = {"name": name, "file": str(file.path), "replaced": known is not None}
        print_json({**row, "check": report and _report_row(report), "advice": advice})
        return
    print_line(f"{'Replaced' if known else 'Added'} {name} in {file.path}.", style="green")
    if report is not None:
        _print_report(report)
    if seconds := entry.get("connect_timeout_seconds"):
        print_line(f"It starts slowly, so its entry has connect_timeout_seconds = {seconds}.")
    for text in advice:
        warn(text)
    print_reload_note(file.path)
    if known is None and len(file.entries()) == 1:
        serve = command_line("serve", *config_words(path))
        print_line(f"Next: {serve}, and connect your client to it.")


def _check(name: str, entry: dict[str, Any], path: Path) -> NewServerReport:
    from ..gateway.operations.server_check import check_new_server

    with progress(f"Starting {name} to check that it works (a first start may download it)"):
        return asyncio.run(check_new_server(name, entry, path))


def _report_row(report: NewServerReport) -> dict[str, Any]:
    check, own, total = report.check, report.own, report.total
    return {
        "tools": check.tools,
        "prompts": check.prompts,
        "resources": check.resources,
        "held": dict(check.held or {}),
        "problems": list(check.problems),
        "tokens_loaded": own.loaded,
        "all": {"tools": total.tools, "loaded": total.loaded, "shown": total.shown},
    }


def _print_report(report: NewServerReport) -> None:
    check, own, total = report.check, report.own, report.total
    counts = (("tool", check.tools), ("prompt", check.prompts), ("resource", check.resources))
    offers = [f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts if n or word == "tool"]
    which = "the tools that are not held for approval" if check.held else "its tools"
    print_line(
        f"It works: {', '.join(offers)}. Loaded into a client, {which} cost {own.loaded:,} tokens."
    )
    print_line(
        f"Through Toolscout, a client sees {total.shown:,} tokens instead of {total.loaded:,}"
        f" for all {total.tools} known tools."
    )
    if total.shown >= total.loaded:
        print_line("With so few tools there is nothing to save yet.")
    for held in check.describe_held_tools():
        warn(held)
    for problem in check.problems:
        warn(problem)
