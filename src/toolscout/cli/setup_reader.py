"""Read the configuration that `toolscout serve` runs with, at the start and after each edit."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .serve_log import LogFormat, print_welcome

if TYPE_CHECKING:
    from ..config import Config
    from ..gateway.setup import Setup

log = logging.getLogger(__name__)
_WELCOME = """\
Toolscout serves {servers} at {url}{path}

Connect a client:
  Claude Code   claude mcp add --transport http toolscout {url}{path}
  others        {{"mcpServers": {{"toolscout": {{"url": "{url}{path}"}}}}}}

{hint}
{console}Status: {url}/health   Metrics: {url}/metrics   Stop: Ctrl-C
"""
_LOGIN_HINT = "Clients have to send a token: Authorization: Bearer TOKEN\n"
_MAX_NAMES = 8
_PATH = "/mcp"
_TRY = "Ask it for something its tools can do; it will look for the right one."
_TRY_EXAMPLE = 'Ask it: "Mail the invoice to Ann" or "Will I need an umbrella tomorrow?"'


@dataclass(frozen=True, slots=True)
class SetupReader:
    """The file and the options of one run; `config` has the settings of the embedded example."""

    path: Path
    overrides: Mapping[str, Any]
    config: Config | None = None
    folder: Path | None = None

    def read(self) -> Setup:
        """Read the current configuration."""
        from ..gateway.setup import Setup

        return Setup.read(
            self.path, overrides=self.overrides, config=self.config, folder=self.folder
        )

    def read_first(self) -> Setup:
        """Read it for a start: log warnings, and raise for a setting that cannot be used."""
        from ..gateway.client.auth import check_auth
        from ..gateway.tls import load_certificate

        setup = self.read()
        # Before the welcome is printed, so that a wrong setting is the last line the user sees.
        check_auth(setup.settings.auth)
        load_certificate(setup.tls_files)
        for text in (*setup.document.warnings, *setup.problems):
            log.warning("%s", text)
        return setup


def server_names(setup: Setup) -> list[str]:
    """The names of the servers that are served."""
    return [s.name for s in setup.document.servers if not s.is_disabled]


def join_names(names: Sequence[str]) -> str:
    """The first names as text, and how many more there are."""
    more = len(names) - _MAX_NAMES
    shown = ", ".join(names[:_MAX_NAMES]) or "no servers yet"
    return f"{shown} and {more} more" if more > 0 else shown


def public_url(setup: Setup, host: str, port: int) -> str:
    """The address of the gateway as its operator wrote it."""
    scheme = "https" if setup.tls_files else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def print_http_welcome(
    setup: Setup, url: str, *, log_format: LogFormat, is_example: bool, **facts: object
) -> None:
    """Print what is served, and how to connect a client."""
    names = server_names(setup)
    hint = _TRY_EXAMPLE if is_example else _TRY
    console = f"Console: {url}/console\n" if setup.options.console else ""
    text = _WELCOME.format(
        servers=join_names(names), url=url, path=_PATH, hint=hint, console=console
    )
    login_hint = _LOGIN_HINT if setup.settings.auth.is_set else ""
    facts = {"transport": "http", "url": f"{url}{_PATH}", **facts, "servers": names}
    print_welcome(f"{text}{login_hint}\n", log_format=log_format, facts=facts)
