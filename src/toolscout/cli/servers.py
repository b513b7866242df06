"""`toolscout remove`, `enable` and `disable`: change the list of servers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..config import Config
from ..errors import ConfigError
from ..program import command_line
from .config_options import config_words, find_servers_file, servers_option
from .output import json_option, print_json, print_line

if TYPE_CHECKING:
    from ..gateway.config_file.server_file import ServerFile
    from ..gateway.upstream.pin_store import PinStore

_NAMES = click.argument("names", nargs=-1, required=True, metavar="NAME...")


@click.command(name="remove")
@_NAMES
@servers_option
@click.option(
    "--forget", is_flag=True, help="Also delete the approvals and revocations of its tools."
)
@json_option
def remove_command(
    *, names: tuple[str, ...], path: Path | None, forget: bool, is_json: bool
) -> None:
    """Remove servers from your list.

    Approvals and revocations of their tools are kept, and apply if you add a server again. --forget
    deletes them too.
    """
    file = _open_file(path)
    # A server may have been removed before, and only its approvals be left.
    gone = [name for name in names if forget and file.find(name) is None]
    forgotten = [name for name in gone if _forget(name, file.path)]
    labels = [file.require(name) for name in names if name not in forgotten]
    for label in labels:
        file.remove(label)
    forgotten += [label for label in labels if forget and _forget(label, file.path)]
    if is_json:
        print_json({"removed": labels, "forgotten": forgotten, "file": str(file.path)})
        return
    if labels:
        print_line(f"Removed {', '.join(labels)} from {file.path}.", style="green")
    if forgotten:
        print_line(f"Deleted the approvals of {', '.join(forgotten)}.", style="green")
    if not forget and any(_has_pins(label, file.path) for label in labels):
        again = command_line("remove", *labels, "--forget", *config_words(path))
        print_line(f"Approvals of their tools are kept. To delete them too: {again}")
    print_reload_note(file.path)


@click.command(name="enable")
@_NAMES
@servers_option
@json_option
def enable_command(*, names: tuple[str, ...], path: Path | None, is_json: bool) -> None:
    """Enable servers that were disabled."""
    _switch(names, path, is_enabled=True, is_json=is_json)


@click.command(name="disable")
@_NAMES
@servers_option
@json_option
def disable_command(*, names: tuple[str, ...], path: Path | None, is_json: bool) -> None:
    """Disable servers: they stay in your list, and are not started."""
    _switch(names, path, is_enabled=False, is_json=is_json)


def _switch(names: tuple[str, ...], path: Path | None, *, is_enabled: bool, is_json: bool) -> None:
    file = _open_file(path)
    labels = [file.require(name) for name in names]
    changed = [label for label in labels if file.switch(label, is_enabled=is_enabled)]
    verb = "enabled" if is_enabled else "disabled"
    if is_json:
        print_json({verb: labels, "changed": changed, "file": str(file.path)})
        return
    for label in labels:
        print_line(
            f"{label} is {verb}." if label in changed else f"{label} was {verb} already.",
            style="green" if label in changed else "",
        )
    if changed:
        print_reload_note(file.path)


def print_reload_note(path: Path) -> None:
    """Report whether a running gateway applies the change."""
    from ..gateway.operations.reload import GatewayProcesses

    processes = GatewayProcesses(settings_of(path).state_folder / "running")
    if processes.is_served(path):
        print_line("The running gateway applies this within a second.")


def settings_of(path: Path) -> Config:
    """The settings in a configuration file; only TOML has any."""
    return Config.read(path if path.suffix == ".toml" and path.is_file() else None)


def _open_file(path: Path | None) -> ServerFile:
    from ..gateway.config_file.server_file import ServerFile

    chosen = find_servers_file(path)
    if not chosen.is_file():
        raise ConfigError(f"{chosen} does not exist.", hint="Check the path given with --config.")
    return ServerFile(chosen)


def _forget(label: str, path: Path) -> bool:
    from ..sources.mcp.server_config import normalise_server_name

    return _open_pins(path).forget(normalise_server_name(label)) > 0


def _has_pins(label: str, path: Path) -> bool:
    from ..sources.mcp.server_config import normalise_server_name

    return normalise_server_name(label) in _open_pins(path).servers()


def _open_pins(path: Path) -> PinStore:
    from ..gateway.upstream.pin_factory import open_pins

    return open_pins(settings_of(path))
