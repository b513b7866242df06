"""`toolscout check`: is every server reachable, and what would its tools cost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from .config_options import servers_option
from .output import json_option, print_json, print_line, print_table


@click.command(name="check")
@servers_option(is_required=True)
@click.option("--profile", metavar="NAME", help="Count what this profile shows.")
@json_option
def command(*, path: Path, profile: str | None, is_json: bool) -> int:
    """Look at every server of a configuration before anything relies on it.

    Exit codes: 0 ready, 10 degraded, 11 blocked (no tool can be used), 2 usage.
    """
    from ..gateway.operations.doctor import EXIT_CODES, CheckReport, check_servers
    from ..gateway.setup import Setup

    found: CheckReport = asyncio.run(
        check_servers(Setup.read(path, overrides={"profile": profile}))
    )
    if is_json:
        print_json(found.row())
        return EXIT_CODES[found.verdict]
    rows = [
        (s.server, s.status, str(s.tools), str(len(s.held or {})), s.protocol, s.reason or s.place)
        for s in found.servers
    ]
    print_table(("server", "status", "tools", "held", "protocol", "where or why"), rows)
    for server in found.servers:
        for tool, why in (server.held or {}).items():
            print_line(f"{server.server}: {tool} is held back: {why}", style="yellow")
        for problem in server.problems:
            print_line(f"{server.server}: {problem}", style="yellow")
    for warning in found.warnings:
        print_line(warning, style="yellow")
    print_line(
        f"{found.tools} tools cost {found.tokens_everything:,} tokens; a client is shown"
        f" {found.tokens_shown:,}. Saved so far: {found.tokens_saved:,}."
    )
    print_line(
        found.verdict, style={"ready": "green", "degraded": "yellow"}.get(found.verdict, "red")
    )
    return EXIT_CODES[found.verdict]
