"""Options that several commands share: `--config`, and the features."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import click

from ..errors import ConfigError
from ..folders import user_servers_file
from ..program import command_line, set_state_file
from .output import Decorated


def servers_option(function: Decorated) -> Decorated:
    """`--config FILE`, passed to the command as `path`; None if it is not given."""
    return click.option(
        "--config",
        "path",
        type=click.Path(path_type=Path),
        metavar="FILE",
        callback=note_state_file,
        help="The servers: an mcpServers JSON file, or TOML.  [default: your own list]",
    )(function)


def note_state_file(
    context: click.Context,  # noqa: ARG001 - as click calls it
    option: click.Parameter,  # noqa: ARG001
    path: Path | None,
) -> Path | None:
    """Let printed commands name a configuration if it decides where the state is."""
    note_config_file(path)
    return path


def note_config_file(path: Path | None) -> None:
    """The same for a configuration that was not given as an option."""
    set_state_file(path if path is not None and _sets_home(path) else None)


def _sets_home(path: Path) -> bool:
    if path.suffix != ".toml" or "TOOLSCOUT_HOME" in os.environ:
        return False
    from ..config import TABLE

    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8")).get(TABLE)
    except (OSError, ValueError):  # reported when the file is read
        return False
    return isinstance(settings, dict) and "home" in settings


def config_words(path: Path | None) -> tuple[str, ...]:
    """`--config FILE` as words of a command to print; none for the user's own list."""
    return () if path is None else ("--config", str(path))


def find_servers_file(path: Path | None) -> Path:
    """The file given with `--config`, or the user's own list of servers."""
    chosen = path or user_servers_file()
    if path is None and not chosen.is_file():
        raise ConfigError(
            f"There are no servers yet: {chosen} does not exist.",
            hint=f"Add one with {command_line('add')} NAME -- COMMAND, import those of your"
            f" clients with {command_line('import')}, or name a file with --config FILE.",
        )
    return chosen


def overlay_option(function: Decorated) -> Decorated:
    """`--overlay FILE`: phrases and aliases for tools; None if it is not given."""
    return click.option(
        "--overlay",
        metavar="FILE",
        # Absolute, because paths in a configuration are relative to its file.
        type=click.Path(dir_okay=False, resolve_path=True, path_type=Path),
        help="A TOML or JSONL file with phrases and aliases.  [default: the setting overlay]",
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
