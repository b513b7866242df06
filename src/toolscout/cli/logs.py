"""`toolscout logs`: print what an MCP server wrote to stderr, and what happened to it."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict
from pathlib import Path

import click

from ..config import Config
from ..errors import ConfigError
from ..program import command_line
from ..sources.mcp.server_log import LogLine, ServerLogs
from .numbers import WholeNumber
from .output import json_option, print_json, print_line, print_note, print_text
from .pins import config_option

_POLL_SECONDS = 0.3


@click.command(name="logs")
@click.argument("server", required=False)
@click.option("-n", "--lines", "count", type=WholeNumber(min=0), default=100, show_default=True,
              help="How many lines.")  # fmt: skip
@click.option("-f", "--follow", "is_following", is_flag=True, help="Continue with new lines.")
@config_option
@json_option
def command(
    *, server: str | None, count: int, is_following: bool, path: Path | None, is_json: bool
) -> None:
    """Print the log of an MCP server; without SERVER, name the servers that have one.

    It has the server's error output and each connection, failure and stop, also of earlier runs.
    Secrets of the configuration are redacted.
    """
    config = Config.read(path if path is not None and path.suffix == ".toml" else None)
    logs = ServerLogs(config.state_folder / "logs")
    if server is None:
        _print_servers(logs, is_json=is_json)
        return
    if server not in logs.servers():
        raise _unknown_server(server, logs, config)
    # The first lines are known when the end of the file is reached for the first time.
    newest: deque[LogLine] = deque(maxlen=count)
    is_current = False

    def follow() -> bool:
        nonlocal is_current
        if not is_current:
            for line in newest:
                _print_line(line, is_json=is_json)
            is_current = True
        else:
            time.sleep(_POLL_SECONDS)
        return is_following

    for line in logs.read(server, follow=follow):
        if is_current:
            _print_line(line, is_json=is_json)
        else:
            newest.append(line)


def _print_servers(logs: ServerLogs, *, is_json: bool) -> None:
    names = logs.servers()
    if is_json:
        print_json(list(names))
        return
    for name in names:
        print_line(name)
    if not names:
        serve, check = command_line("serve"), command_line("check")
        print_note(f"No server has a log yet. {serve} and {check} write them.")


def _unknown_server(server: str, logs: ServerLogs, config: Config) -> ConfigError:
    if config.record == "off":
        hint = 'Nothing is recorded: the setting record is "off".'
    elif names := logs.servers():
        hint = f"These servers have one: {', '.join(names)}."
    else:
        serve, check = command_line("serve"), command_line("check")
        hint = f"A log begins when {serve} or {check} starts the server."
    return ConfigError(f"Server {server!r} has no log.", hint=hint)


def _print_line(line: LogLine, *, is_json: bool) -> None:
    if is_json:
        print_json(asdict(line), is_line=True)
    else:
        print_text(str(line))
