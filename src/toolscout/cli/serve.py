"""`toolscout serve`: the gateway, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from .output import warn

DEFAULT_PORT = 8765


class Address(click.ParamType[tuple[str, int]]):
    """HOST:PORT, either of which may be left out."""

    name = "HOST:PORT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Read an address."""
        if isinstance(value, tuple):
            return value  # pyright: ignore[reportUnknownVariableType] -- converted before
        host, found, port = str(value).rpartition(":")
        if not found:
            host, port = (port, "") if not port.isdigit() else ("", port)
        try:
            number = int(port or DEFAULT_PORT)
        except ValueError:
            self.fail(f"{value!r} is not HOST:PORT.", param, ctx)
        return host.strip("[]") or "127.0.0.1", number


@click.command(name="serve")
@click.option(
    "--config",
    "path",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The servers: an mcpServers JSON file, or TOML.",
)
@click.option("--stdio", "is_stdio", is_flag=True, help="Serve one client over stdin and stdout.")
@click.option(
    "--http",
    "address",
    type=Address(),
    help=f"Serve over HTTP.  [default: 127.0.0.1:{DEFAULT_PORT}]",
)
@click.option("--profile", metavar="NAME", help="Which tools clients see.  [default: default]")
@click.option(
    "--surface",
    type=click.Choice(["dispatch", "load"]),
    help="Whether found tools are called through call_tool, or join the list.",
)
@click.option(
    "--require-approval",
    is_flag=True,
    default=None,
    help="Approve every tool before its first use.",
)
@click.option(
    "--wait",
    "start_wait_seconds",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="How long the first searches wait for servers never seen before.",
)
@click.option("--session", default="", metavar="ID", help="Keep the conversation under this id.")
@click.option("--verbose", is_flag=True, help="Tell on stderr what happens.")
def command(
    *,
    path: Path,
    is_stdio: bool,
    address: tuple[str, int] | None,
    session: str,
    verbose: bool,
    **overrides: Any,
) -> None:
    """Put all MCP servers of a configuration behind one.

    Clients see a search, a description and a call in place of every tool. Edits of the
    configuration apply without a restart.
    """
    if is_stdio and address is not None:
        raise click.UsageError("Choose --stdio or --http, not both.")
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING)
    run(
        path,
        address=None if is_stdio else address or ("127.0.0.1", DEFAULT_PORT),
        session=session,
        overrides=overrides,
    )


def run(
    path: Path,
    *,
    address: tuple[str, int] | None,
    session: str = "",
    overrides: Mapping[str, Any],
) -> None:
    """Serve until stopped: over HTTP on an address, or over stdio without one."""
    from ..gateway.gateway import Gateway
    from ..gateway.server import PATH, bound, serve_http, serve_stdio
    from ..gateway.setup import Setup

    def again() -> Setup:
        return Setup.read(path, overrides=overrides)

    setup = again()
    for text in (*setup.document.warnings, *setup.problems):
        warn(text)
    gateway = Gateway(setup, session=session)
    if address is None:
        asyncio.run(serve_stdio(gateway, again=again))
        return
    host, port = address
    listener = bound(host, port)
    shown = f"[{host}]" if ":" in host else host
    warn(f"Serving {len(setup.document.servers)} servers on http://{shown}:{port}{PATH}")
    asyncio.run(serve_http(gateway, listener, again=again))
