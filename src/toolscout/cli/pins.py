"""`toolscout pins`: list, compare, approve and revoke the tools that servers offer."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigError
from ..events import stamp
from ..folders import user_servers_file
from ..program import command_line
from .config_options import note_state_file
from .journal_file import journal_config
from .output import Decorated, json_option, print_json, print_line, print_table, warn

if TYPE_CHECKING:
    from ..gateway.setup import Setup
    from ..gateway.upstream.pin_decisions import PinChoice, PinDecision
    from ..gateway.upstream.pin_store import PinStore
    from ..gateway.upstream.pins import PinLedger
    from ..sources.mcp.servers import Server

# Where the user requires approval, a check has made pins already.
_FIRST_START = "When {serve} first starts it, its tools are approved, except those that you revoke."

# What rows of the journal name as the program.
_CLIENT = "toolscout pins"
_EMPTY = "There are no pins yet: no server was started by a gateway."
_EMPTY_HELD = "No tool is held for approval or revoked."


def config_option(function: Decorated) -> Decorated:
    """`--config FILE`, for a gateway whose configuration sets `home`."""
    return click.option(
        "--config",
        "path",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        callback=note_state_file,
        help="The gateway's configuration, if it is not your own list.",
    )(function)


def _open_pins(path: Path | None) -> PinStore:
    from ..gateway.upstream.pin_factory import open_pins

    return open_pins(journal_config(path))


def _find_ledgers(server: str | None, path: Path | None) -> tuple[PinLedger, ...]:
    pins = _open_pins(path)
    found = pins.ledgers(server or "")
    if server is not None and not found:
        _find_unmet_server(server, path, pins)  # raises if there is no such server
        warn(f"{server} has no pins yet. {_FIRST_START.format(serve=command_line('serve'))}")
    return found


def _find_unmet_server(server: str, path: Path | None, pins: PinStore) -> tuple[Setup, Server]:
    """A configured server without pins, and its configuration; raises if there is none."""
    from ..gateway.setup import Setup
    from ..sources.mcp.server_config import normalise_server_name

    file = path or user_servers_file()
    setup = Setup.read(file) if file.is_file() else None
    known = {each.name: each for each in setup.document.servers} if setup else {}
    name = server if server in known else normalise_server_name(server)
    if setup is not None and name in known:
        return setup, known[name]
    names = dict.fromkeys((*known, *pins.servers()))
    near = get_close_matches(server, names)
    hints = [f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(names)}."]
    hints = [*(hints if names else ()), "If it is in another file, name it with --config FILE."]
    raise ConfigError(
        f"There is no server {server!r}{f' in {file}' if setup else ''}, and it has no pins.",
        hint=" ".join(hints),
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
    if not rows:
        if server is None or ledgers:
            print_line(_EMPTY_HELD if only_held and ledgers else _EMPTY)
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
    from ..gateway.upstream.held_tools import needed_names, pins_command
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
            f"{row['server']}: {row['tool']} ({row['standing']}) {row['note']}".rstrip(),
            style="bold",
        )
        if row["standing"] == "revoked":
            print_line("  You revoked it: nobody can find or call it until you approve it.")
        for change in row["changes"]:
            print_line(f"  {change['field']}")
            if change["before"]:
                _print_side("-", change["before"], style="red")
            if change["after"]:
                _print_side("+", change["after"], style="green")
    for ledger in ledgers:
        held = [pin for pin in ledger.pins_on_hold if tool in (None, pin.tool)]
        if held:
            approve = pins_command("approve", name(ledger), *needed_names(held))
            print_line(f"Approve: {approve}")
    if not rows:
        print_line("Nothing is held for approval.")


def _print_side(sign: str, text: str, *, style: str) -> None:
    """One side of a change; each of its lines has the sign, so none looks like another part."""
    for line in text.split("\n"):
        print_line(f"    {sign} {line}", style=style)


@command.command(name="approve")
@click.argument("server")
@click.argument("tools", nargs=-1)
@config_option
def approve_tools(*, path: Path | None, server: str, tools: tuple[str, ...]) -> None:
    """Approve the tools that a server offers now: the named ones, or all new and changed ones.

    A tool that uses another tool's name must be named to be approved.
    """
    _change_pins(path, server, tools, "approved")


@command.command(name="revoke")
@click.argument("server")
@click.argument("tools", nargs=-1)
@config_option
def revoke_tools(*, path: Path | None, server: str, tools: tuple[str, ...]) -> None:
    """Hide tools from search and calls: the named ones, or all of the server's."""
    _change_pins(path, server, tools, "revoked")


def _change_pins(path: Path | None, server: str, tools: tuple[str, ...], choice: PinChoice) -> None:
    from ..gateway.upstream.pin_decisions import decide_pins

    pins = _open_pins(path)
    if not pins.ledgers(server):
        _find_unmet_server(server, path, pins)  # raises if there is no such server
    done = decide_pins(
        pins, server, tools, choice, find_unmet=lambda: _find_unmet_server(server, path, pins)
    )
    _record(done, path)
    if done.changed:
        print_line(f"{server}: {choice} {', '.join(done.changed)}.")
    else:
        print_line(f"{server}: nothing to change. {_describe_states(done.after, tools)}")
    _print_next(server, tools, done)


def _record(done: PinDecision, path: Path | None) -> None:
    """Write the decision to the journal, with the user of this machine as the principal."""
    from ..journal.journal import Journal

    journal = Journal.open(journal_config(path))
    try:
        for event in done.events(principal=_user_name(), client=_CLIENT):
            journal(stamp(event))
    finally:
        journal.close()


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name, as in some containers
        return ""


def _describe_states(ledger: PinLedger, tools: tuple[str, ...]) -> str:
    """How many of the tools are approved and held, and how to see each."""
    held = {pin.tool for pin in ledger.pins_on_hold}
    chosen = [tool for tool in ledger.pins if not tools or tool in tools]
    waiting = sum(tool in held for tool in chosen)
    counts = f"{len(chosen) - waiting} approved, {waiting} held for approval"
    return f"Its tools: {counts}. See them: {command_line('pins', 'list', ledger.server)}"


def _print_next(server: str, tools: tuple[str, ...], done: PinDecision) -> None:
    after = done.after
    is_approval = done.choice == "approved" and not tools
    if is_approval and not done.changed and after.pins_on_hold:
        approve = command_line("pins", "approve", server, *(p.tool for p in after.pins_on_hold))
        print_line(f"Name these tools to approve them: {approve}")
    elif not after.is_known:
        print_line(_FIRST_START.format(serve=command_line("serve")))
