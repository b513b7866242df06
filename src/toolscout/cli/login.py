"""`toolscout login`: log in to a server with OAuth, in a browser."""

from __future__ import annotations

import asyncio
import logging
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ConfigError
from .config_options import find_servers_file, servers_option
from .output import print_line

if TYPE_CHECKING:
    from ..gateway.setup import Setup
    from ..sources.mcp.servers import Server


@click.command(name="login")
@click.argument("server")
@servers_option
@click.option("--no-browser", is_flag=True, help="Only print the address to open.")
@click.option("--forget", is_flag=True, help="Delete the tokens of an earlier login.")
def command(*, server: str, path: Path | None, no_browser: bool, forget: bool) -> None:
    """Log in to a server that asks for it (OAuth).

    From then on the gateway uses the tokens of the login, and renews them by itself.
    """
    from ..gateway.setup import Setup
    from ..sources.mcp.login import log_in
    from ..sources.mcp.oauth_tokens import OAuthTokenStore

    setup = Setup.read(find_servers_file(path))
    target = _find_login_server(setup, server)
    grants = OAuthTokenStore.of(setup.config)
    if forget:
        was_there = grants.forget(target.url)
        print_line(
            f"Logged out of {target.name}."
            if was_there
            else f"There is no stored login for {target.name}."
        )
        return
    # log_in() raises with the reason; the SDK's own log lines would only repeat it.
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)

    def show_url(url: str) -> None:
        click.echo(f"Open this address to let Toolscout use {target.name}:\n{url}")
        if not no_browser:
            webbrowser.open(url)

    grants.save(asyncio.run(log_in(target, show_url=show_url)))
    print_line(f"Logged in to {target.name}.", style="green")


def _find_login_server(setup: Setup, name: str) -> Server:
    """The server with this name; raises if it cannot be logged in to."""
    servers = {s.name: s for s in setup.document.servers}
    if name not in servers:
        known = ", ".join(s.name for s in servers.values() if s.url) or "none"
        raise ConfigError(f"There is no server {name!r}.", hint=f"Servers with a url: {known}.")
    server = servers[name]
    if server.problem:
        raise ConfigError(server.problem)
    if not server.url:
        raise ConfigError(f"Server {name!r} is a local command: pass its credentials in env.")
    if server.has_authorization:
        raise ConfigError(
            f"Server {name!r} has an Authorization header, which is sent instead of a login.",
            hint="Remove it from the headers first.",
        )
    return server
