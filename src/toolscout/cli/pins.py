"""`toolscout pins`: list, compare, approve and revoke the tools that servers offer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..config import Config
from ..errors import ConfigError
from .output import Decorated, json_option, print_json, print_line, print_table

if TYPE_CHECKING:
    from ..gateway.upstream.pin_store import PinStore
    from ..gateway.upstream.pins import PinLedger


def config_option(function: Decorated) -> Decorated:
    """`--config FILE`, for a gateway whose configuration sets `home`."""
    return click.option(
        "--config",
        "path",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        help="The gateway's configuration, if its [settings] set home.",
    )(function)


def _open_pins(path: Path | None) -> PinStore:
    from ..gateway.upstream.pin_store import PinStore

    # Only TOML has a [settings] table, and so a `home`.
    is_toml = path is not None and path.suffix == ".toml"
    return PinStore(Config.read(path if is_toml else None).state_folder / "pins")


def _find_ledgers(server: str | None, path: Path | None) -> tuple[PinLedger, ...]:
    pins = _open_pins(path)
    if server is not None:
        _require_pins(server, pins)
    return pins.ledgers(server or "")


def _require_pins(server: str, pins: PinStore) -> None:
    if not pins.ledgers(server):
        raise ConfigError(
            f"Server {server!r} has no pins.",
            hint=f"Servers with pins: {', '.join(pins.servers()) or 'none yet'}. If the gateway's"
            " configuration sets home, give it with --config FILE.",
        )


def _name_ledgers(ledgers: Iterable[PinLedger]) -> Callable[[PinLedger], str]:
    """Names for printing: the server's name, or its label if several servers share the name."""
    counts = Counter(ledger.server for ledger in ledgers)
    return lambda ledger: ledger.label if counts[ledger.server] > 1 else ledger.server


@click.group(name="pins")
def command() -> None:
    """Approve the tools of MCP servers: new and changed tools are held until you do."""


@command.command(name="list")
@click.argument("server", required=False)
@click.option("--held", "only_held", is_flag=True, help="Only tools held for approval or revoked.")
@config_option
@json_option
def list_pins(*, path: Path | None, server: str | None, only_held: bool, is_json: bool) -> None:
    """List pinned tools and their status."""
    ledgers = _find_ledgers(server, path)
    name = _name_ledgers(ledgers)
    rows = [
        {
            "server": name(ledger),
            "tool": pin.tool,
            "standing": pin.standing,
            "note": pin.note,
            "place": ledger.place,
        }
        for ledger in ledgers
        for pin in (ledger.pins_on_hold if only_held else ledger.pins.values())
    ]
    if is_json:
        print_json(rows)
        return
    # The place is only needed to tell servers of the same name apart.
    shows_place = any(name(ledger) != ledger.server for ledger in ledgers)
    columns = ("server", "tool", "standing", "note", *(("place",) if shows_place else ()))
    print_table(columns, [tuple(row[column] for column in columns) for row in rows])


@command.command(name="diff")
@click.argument("server", required=False)
@click.argument("tool", required=False)
@config_option
@json_option
def diff_pins(*, path: Path | None, server: str | None, tool: str | None, is_json: bool) -> None:
    """Show field by field what changed between the approved and the offered definition."""
    from ..gateway.upstream.pins import diff_pin

    ledgers = _find_ledgers(server, path)
    name = _name_ledgers(ledgers)
    rows: list[dict[str, Any]] = [
        {
            "server": name(ledger),
            "tool": pin.tool,
            "standing": pin.standing,
            "note": pin.note,
            "changes": [
                {"field": c.path, "before": c.before, "after": c.after} for c in diff_pin(pin)
            ],
        }
        for ledger in ledgers
        for pin in ledger.pins_on_hold
        if tool in (None, pin.tool)
    ]
    if is_json:
        print_json(rows)
        return
    for row in rows:
        print_line(
            f"{row['server']}: {row['tool']} ({row['standing']}) {row['note']}", style="bold"
        )
        for change in row["changes"]:
            print_line(f"  {change['field']}")
            if change["before"]:
                print_line(f"    - {change['before']}", style="red")
            if change["after"]:
                print_line(f"    + {change['after']}", style="green")
    if not rows:
        print_line("Nothing is held for approval.")


@command.command(name="approve")
@click.argument("server")
@click.argument("tools", nargs=-1)
@config_option
def approve_tools(*, path: Path | None, server: str, tools: tuple[str, ...]) -> None:
    """Approve the tools that a server offers now: the named ones, or all new and changed ones.

    A tool that uses another tool's name must be named to be approved.
    """
    _change_pins(path, server, tools, lambda ledger: ledger.approve(*tools), "approved")


@command.command(name="revoke")
@click.argument("server")
@click.argument("tools", nargs=-1)
@config_option
def revoke_tools(*, path: Path | None, server: str, tools: tuple[str, ...]) -> None:
    """Hide tools from search and calls: the named ones, or all of the server's."""
    _change_pins(path, server, tools, lambda ledger: ledger.revoke(*tools), "revoked")


def _change_pins(
    path: Path | None,
    server: str,
    tools: tuple[str, ...],
    change: Callable[[PinLedger], PinLedger],
    verb: str,
) -> None:
    pins = _open_pins(path)
    _require_pins(server, pins)
    # Read and written under the lock, so that a running gateway cannot write in between.
    with pins.write_lock(server):
        before = pins.ledger(server)
        unknown = [t for t in tools if t not in before.pins]
        if unknown:
            raise ConfigError(
                f"Server {server!r} has no pin for {', '.join(unknown)}.",
                hint=f"See them all: toolscout pins list {server}",
            )
        after = change(before)
        pins.save(after)
    changed = [t for t, pin in after.pins.items() if pin != before.pins[t]]
    print_line(f"{server}: {verb} {', '.join(changed) or 'nothing'}.")
