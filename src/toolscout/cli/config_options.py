"""The option that names the gateway's servers, alike in every command that reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from .output import Decorated


def servers_option(*, is_required: bool) -> Callable[[Decorated], Decorated]:
    """`--config FILE`, handed over as `path`."""
    return click.option(
        "--config",
        "path",
        required=is_required,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The servers: an mcpServers JSON file, or TOML.",
    )
