"""`toolscout list`: the configured servers, and what is known of them without starting any."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..program import command_line
from .config_options import find_servers_file, servers_option
from .output import json_option, print_json, print_line, print_table

if TYPE_CHECKING:
    from ..gateway.operations.known_servers import KnownServer

_COLUMNS = ("server", "transport", "last status", "tools", "held", "command or address")


@click.command(name="list")
@servers_option
@json_option
def command(*, path: Path | None, is_json: bool) -> None:
    """List your servers, without starting them.

    The counts of tools and held tools are from the last time each server was listed.
    """
    from ..gateway.operations.known_servers import read_known_servers
    from ..gateway.setup import Setup

    file = find_servers_file(path)
    servers = read_known_servers(Setup.read(file))
    if is_json:
        print_json({"file": str(file), "servers": [server.row() for server in servers]})
        return
    print_line(f"Servers in {file}:")
    print_table(_COLUMNS, [_cells(server) for server in servers])
    for server in servers:
        if server.problem:
            print_line(f"{server.name}: {server.problem}", style="yellow")
        if server.held:
            print_line(
                f"{server.name}: {server.held} held for approval. See why, and how to approve:"
                f" {command_line('pins', 'diff', server.label)}",
                style="yellow",
            )
    if not servers:
        print_line(f"There are no servers yet. Add one: {command_line('add')} NAME -- COMMAND.")


def _cells(server: KnownServer) -> tuple[str, ...]:
    return (
        server.name,
        server.transport,
        _status_text(server),
        "not listed yet" if server.tools is None else str(server.tools),
        str(server.held),
        server.place,
    )


def _status_text(server: KnownServer) -> str:
    reason = f": {server.status_reason}" if server.status_reason else ""
    time = f" ({server.status_time})" if server.status_time else ""
    if server.status_by == "check":
        reason, time = f" at the last check{time}{reason}", ""
    is_elsewhere = server.project and not Path.cwd().is_relative_to(server.project)
    if is_elsewhere and server.status == "disabled":
        return f"belongs to the project {server.project}"
    project = f", only in {server.project}" if server.project else ""
    return f"{server.status}{reason}{time}{project}"
