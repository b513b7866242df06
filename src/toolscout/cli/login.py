"""`toolscout login`: log in to a server with OAuth, in a browser."""

from __future__ import annotations

import asyncio
import logging
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ConfigError
from ..program import command_line
from .config_options import find_servers_file, servers_option
from .output import json_option, print_json, print_line, print_table

if TYPE_CHECKING:
    from ..gateway.setup import Setup
    from ..sources.mcp.oauth_tokens import Grant, OAuthTokenStore
    from ..sources.mcp.servers import Server


@click.command(name="login")
@click.argument("server", required=False)
@servers_option
@click.option("--principal", metavar="NAME", default="", help="Log in for this principal.")
@click.option("--no-browser", is_flag=True, help="Only print the address to open.")
@click.option("--forget", is_flag=True, help="Delete the tokens of an earlier login.")
@click.option("--list", "lists", is_flag=True, help="List the logins that are stored.")
@json_option
def command(
    *,
    server: str | None,
    path: Path | None,
    principal: str,
    no_browser: bool,
    forget: bool,
    lists: bool,
    is_json: bool,
) -> None:
    """Log in to a server that asks for it (OAuth).

    From then on the gateway uses the tokens of the login, and renews them by itself. With
    per_principal in its oauth table, a server has a login for each principal.
    """
    from ..gateway.setup import Setup
    from ..sources.mcp.oauth_tokens import OAuthTokenStore

    setup = Setup.read(find_servers_file(path))
    grants = OAuthTokenStore.of(setup.config)
    if lists:
        _print_logins(setup, grants, server, is_json=is_json)
        return
    if server is None:
        raise ConfigError(
            "Name a server.", hint=f"For all logins: {command_line('login', '--list')}"
        )
    target = _find_login_server(setup, server)
    if principal and not target.oauth.is_per_principal:
        raise ConfigError(
            f"Server {target.name!r} has one login for everybody.",
            hint="Set per_principal = true in its oauth table, or leave out --principal.",
        )
    if forget:
        was_there = grants.forget(target.url, principal)
        print_line(
            f"Logged out of {target.name}."
            if was_there
            else f"There is no stored login for {target.name}."
        )
        return
    _log_in(target, grants, principal, no_browser=no_browser)
    print_line(f"Logged in to {target.name}.", style="green")


def _log_in(server: Server, grants: OAuthTokenStore, principal: str, *, no_browser: bool) -> None:
    from ..sources.mcp.login import log_in

    # log_in() raises with the reason; the SDK's own log lines would only repeat it.
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)
    user = f" for {principal}" if principal else ""

    def show_url(url: str) -> None:
        print_line(f"Open this address to let Toolscout use {server.name}{user}:")
        print_line(url)
        if not no_browser:
            webbrowser.open(url)

    grants.save(asyncio.run(log_in(server, show_url=show_url, principal=principal)))


def _print_logins(
    setup: Setup, grants: OAuthTokenStore, server: str | None, *, is_json: bool
) -> None:
    """The stored logins of the servers of a configuration, without their tokens."""
    names = {s.url: s.name for s in setup.document.servers if s.url}
    rows = sorted(
        (names[grant.url], grant.principal, _describe(grant))
        for grant in grants.load_all()
        if grant.url in names and server in (None, names[grant.url])
    )
    if is_json:
        print_json([{"server": s, "principal": p, "status": status} for s, p, status in rows])
        return
    print_table(("server", "principal", "status"), [(s, p or "(shared)", t) for s, p, t in rows])


def _describe(grant: Grant) -> str:
    if grant.refresh_token:
        return "renews itself"
    return "expired" if grant.is_expired else "cannot be renewed"


def _find_login_server(setup: Setup, name: str) -> Server:
    """The server with this name; raises if it cannot be logged in to."""
    from ..sources.mcp.login import check_login_target

    servers = {s.name: s for s in setup.document.servers}
    if name not in servers:
        known = ", ".join(s.name for s in servers.values() if s.url) or "none"
        raise ConfigError(f"There is no server {name!r}.", hint=f"Servers with a url: {known}.")
    server = servers[name]
    check_login_target(server)
    return server
