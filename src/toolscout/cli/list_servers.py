"""`toolscout list`: the configured servers, and what is known of them without starting any."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .config_options import find_servers_file, servers_option
from .output import json_option, print_json, print_line, print_table

if TYPE_CHECKING:
    from ..gateway.operations.known_servers import KnownServer

_COLUMNS = ("server", "transport", "enabled", "tools", "held", "last state", "command or address")


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
                f"{server.name}: {server.held} held for approval; see toolscout pins diff"
                f" {server.name}, then toolscout pins approve {server.name}.",
                style="yellow",
            )
    if not servers:
        print_line("There are no servers yet. Add one: toolscout add NAME -- COMMAND.")


def _cells(server: KnownServer) -> tuple[str, ...]:
    return (
        server.name,
        server.transport,
        _enabled_text(server),
        "not listed yet" if server.tools is None else str(server.tools),
        str(server.held),
        _state_text(server),
        server.place,
    )


def _enabled_text(server: KnownServer) -> str:
    if server.project:
        return f"{'yes' if server.is_enabled else 'no'}, only in {server.project}"
    return "yes" if server.is_enabled else "no"


def _state_text(server: KnownServer) -> str:
    if not server.state:
        return ""
    reason = f": {server.state_reason}" if server.state_reason else ""
    return f"{server.state}{reason} ({server.state_time})"
