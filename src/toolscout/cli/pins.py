"""`toolscout pins`: what servers offered, what was approved, and what changed since."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ..config import Config
from ..errors import ConfigError
from .output import json_option, print_json, print_table, say

if TYPE_CHECKING:
    from ..gateway.pins import Ledger, Pins


def _pins() -> Pins:
    from ..gateway.pins import Pins

    return Pins(Config.read().state_folder / "pins")


def _ledgers(server: str | None) -> Iterator[Ledger]:
    pins = _pins()
    known = pins.servers()
    if server is not None and server not in known:
        raise ConfigError(
            f"Server {server!r} has no pins.",
            hint=f"Servers with pins: {', '.join(known) or 'none yet'}.",
        )
    for name in (server,) if server else known:
        yield pins.ledger(name)


@click.group(name="pins")
def command() -> None:
    """Approve what MCP servers offer: new and changed tools wait until you do."""


@command.command(name="list")
@click.argument("server", required=False)
@click.option("--held", "only_held", is_flag=True, help="Only tools that wait or were revoked.")
@json_option
def list_(*, server: str | None, only_held: bool, is_json: bool) -> None:
    """List pinned tools and where they stand."""
    rows = [
        {"server": ledger.server, "tool": pin.tool, "standing": pin.standing, "note": pin.note}
        for ledger in _ledgers(server)
        for pin in (ledger.held if only_held else ledger.pins.values())
    ]
    if is_json:
        print_json(rows)
        return
    print_table(("server", "tool", "standing", "note"), [tuple(r.values()) for r in rows])


@command.command(name="diff")
@click.argument("server", required=False)
@click.argument("tool", required=False)
@json_option
def diff(*, server: str | None, tool: str | None, is_json: bool) -> None:
    """Show field by field what changed between the approved and the offered definition."""
    from ..gateway.pins import difference

    rows: list[dict[str, Any]] = [
        {
            "server": ledger.server,
            "tool": pin.tool,
            "standing": pin.standing,
            "note": pin.note,
            "changes": [
                {"field": c.path, "before": c.before, "after": c.after} for c in difference(pin)
            ],
        }
        for ledger in _ledgers(server)
        for pin in ledger.held
        if tool in (None, pin.tool)
    ]
    if is_json:
        print_json(rows)
        return
    for row in rows:
        say(f"{row['server']}: {row['tool']} ({row['standing']}) {row['note']}", style="bold")
        for change in row["changes"]:
            say(f"  {change['field']}")
            if change["before"]:
                say(f"    - {change['before']}", style="red")
            if change["after"]:
                say(f"    + {change['after']}", style="green")
    if not rows:
        say("Nothing waits.")


@command.command(name="approve")
@click.argument("server")
@click.argument("tools", nargs=-1)
def approve(*, server: str, tools: tuple[str, ...]) -> None:
    """Take what a server offers now as right: the tools named, or all new and changed ones.

    A tool that borrows another's name must be named to be approved.
    """
    _change(server, tools, lambda ledger: ledger.approve(*tools), "approved")


@command.command(name="revoke")
@click.argument("server")
@click.argument("tools", nargs=-1)
def revoke(*, server: str, tools: tuple[str, ...]) -> None:
    """Hold tools back from search and calls: those named, or all of the server's."""
    _change(server, tools, lambda ledger: ledger.revoke(*tools), "revoked")


def _change(
    server: str, tools: tuple[str, ...], move: Callable[[Ledger], Ledger], done: str
) -> None:
    (before,) = _ledgers(server)
    unknown = [t for t in tools if t not in before.pins]
    if unknown:
        raise ConfigError(
            f"Server {server!r} has no pin for {', '.join(unknown)}.",
            hint=f"See them all: toolscout pins list {server}",
        )
    after = move(before)
    _pins().save(after)
    changed = [t for t, pin in after.pins.items() if pin != before.pins[t]]
    say(f"{server}: {done} {', '.join(changed) or 'nothing'}.")
