"""The built-in example of the gateway: a content management system and two small servers."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import click

from ..examples import clock, text
from ..sources.functions import FunctionSource
from .demo import load_example_site

SERVERS = ("cms", "clock", "text")


def write_example_config(folder: Path) -> Path:
    """Write the configuration of the example into a folder and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    module = ["-m", "toolscout.cli.example"]
    entries = {
        name: {"command": sys.executable, "args": [*module, name, str(folder / "site")]}
        for name in SERVERS
    }
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": entries}, indent=2) + "\n", encoding="utf-8")
    return path


@click.command
@click.argument("server", type=click.Choice(SERVERS))
@click.argument("folder", type=click.Path(path_type=Path))
def command(*, server: str, folder: Path) -> None:
    """Serve one of the example's servers over stdio."""
    asyncio.run(_serve_example(server, folder))


async def _serve_example(server: str, folder: Path) -> None:
    if server == "cms":
        async with load_example_site().open_cms(folder) as cms:
            await _serve_over_stdio(FunctionSource(cms.functions, name=server))
    else:
        functions = clock.FUNCTIONS if server == "clock" else text.FUNCTIONS
        await _serve_over_stdio(FunctionSource(functions, name=server))


async def _serve_over_stdio(source: FunctionSource) -> None:
    from ..gateway.serve_source import build_source_server

    await build_source_server(source).run_stdio_async(show_banner=False, log_level="WARNING")


if __name__ == "__main__":
    command()
