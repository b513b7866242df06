"""The `--config` option of all commands that read a gateway's configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from .output import Decorated


def servers_option(*, is_required: bool) -> Callable[[Decorated], Decorated]:
    """`--config FILE`, passed to the command as `path`."""
    return click.option(
        "--config",
        "path",
        required=is_required,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The servers: an mcpServers JSON file, or TOML.",
    )
