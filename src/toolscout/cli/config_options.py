"""Options that several commands share: `--config`, and the features."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from ..errors import ConfigError
from ..folders import user_servers_file
from .output import Decorated


def servers_option(function: Decorated) -> Decorated:
    """`--config FILE`, passed to the command as `path`; None if it is not given."""
    return click.option(
        "--config",
        "path",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The servers: an mcpServers JSON file, or TOML.  [default: your own list]",
    )(function)


def find_servers_file(path: Path | None) -> Path:
    """The file given with `--config`, or the user's own list of servers."""
    chosen = path or user_servers_file()
    if path is None and not chosen.is_file():
        raise ConfigError(
            f"There are no servers yet: {chosen} does not exist.",
            hint="Add one with toolscout add NAME -- COMMAND, import those of your clients with"
            " toolscout import, or name a file with --config FILE.",
        )
    return chosen


def overlay_option(function: Decorated) -> Decorated:
    """`--overlay FILE`: phrases and aliases for tools; None if it is not given."""
    return click.option(
        "--overlay",
        metavar="FILE",
        # Absolute, because paths in a configuration are relative to its file.
        type=click.Path(dir_okay=False, resolve_path=True, path_type=Path),
        help="A TOML file with phrases and aliases for tools.  [default: the setting overlay]",
    )(function)


def feature_options(command: Decorated) -> Decorated:
    """`--rules`, `--skills` and `--memory`; each is None if it is not given."""
    for option in reversed(
        (
            _paths_option(
                "--rules", "PATH", "Rules for using tools: a folder, or a Markdown file."
            ),
            _paths_option("--skills", "FOLDER", "A folder of skills."),
            click.option(
                "--memory/--no-memory", default=None, help="Remember entities and tools used."
            ),
        )
    ):
        command = option(command)
    return command


def _none_if_empty(
    context: click.Context,  # noqa: ARG001 - as click calls it
    option: click.Parameter,  # noqa: ARG001
    paths: tuple[Path, ...],
) -> tuple[Path, ...] | None:
    return paths or None


def _paths_option(name: str, metavar: str, help_text: str) -> Callable[[Decorated], Decorated]:
    return click.option(
        name,
        multiple=True,
        metavar=metavar,
        # Absolute, because paths in a configuration are relative to its file.
        type=click.Path(exists=True, resolve_path=True, path_type=Path),
        callback=_none_if_empty,
        help=f"{help_text} May be repeated.",
    )
