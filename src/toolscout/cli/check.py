"""`toolscout check`: whether every server can be used, and what its tools cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..program import command_line
from .config_options import find_servers_file, servers_option
from .output import json_option, print_json, print_line, print_table
from .progress import progress

if TYPE_CHECKING:
    from ..gateway.operations.doctor import ServerCheck
    from ..sources.mcp.server_log import ServerLogs


@click.command(name="check")
@servers_option
@click.option("--profile", metavar="NAME", help="Count what this profile shows.")
@json_option
def command(*, path: Path | None, profile: str | None, is_json: bool) -> int:
    """Check that every server of a configuration works, and what its tools cost.

    Exit codes: 0 ready, 10 degraded, 11 failing (no tool can be used), 2 usage.
    """
    with progress("Reading the configuration") as step:
        from ..gateway.operations.doctor import EXIT_CODES, check_servers
        from ..gateway.setup import Setup

        def report_waiting(waiting: Sequence[str], total: int) -> None:
            step(_describe_wait(waiting), total - len(waiting), total)

        setup = Setup.read(find_servers_file(path), overrides={"profile": profile})
        report = asyncio.run(check_servers(setup, progress=report_waiting))
    if is_json:
        print_json(report.row())
        return EXIT_CODES[report.verdict]
    rows = [
        (s.server, s.status, str(s.tools), str(len(s.held or {})), s.protocol, s.reason or s.place)
        for s in report.servers
    ]
    print_table(("server", "status", "tools", "held", "protocol", "where or why"), rows)
    for server in report.servers:
        for held in server.describe_held_tools():
            print_line(f"{server.server}: {held}", style="yellow")
        for problem in server.problems:
            print_line(f"{server.server}: {problem}", style="yellow")
        if server.status == "failing" and setup.server_logs:
            _print_next_step(server, setup.server_logs)
    for warning in report.warnings:
        print_line(warning, style="yellow")
    if not report.servers:
        print_line(
            f"There are no servers in {setup.path}. Add one: {command_line('add')} NAME -- COMMAND",
            style="yellow",
        )
    print_line(
        f"{report.tools} {'tool costs' if report.tools == 1 else 'tools cost'}"
        f" {report.tokens_everything:,} tokens; a client is shown"
        f" {report.tokens_shown:,}. Saved so far: {report.tokens_saved:,}."
    )
    print_line(
        report.verdict, style={"ready": "green", "degraded": "yellow"}.get(report.verdict, "red")
    )
    return EXIT_CODES[report.verdict]


def _print_next_step(server: ServerCheck, logs: ServerLogs) -> None:
    """What to do about a server that cannot be reached."""
    if server.server in logs.servers():
        show = command_line("logs", server.server)
        print_line(f"{server.server}: its log: {show}", style="yellow")


_MAX_NAMES = 3


def _describe_wait(waiting: Sequence[str]) -> str:
    """The servers that a check waits for; on its first start, npx or uvx downloads one."""
    more = f" and {len(waiting) - _MAX_NAMES} more" if len(waiting) > _MAX_NAMES else ""
    names = f"{', '.join(waiting[:_MAX_NAMES])}{more}"
    return f"Starting {names} (a first start may download it)" if waiting else "Counting tokens"
