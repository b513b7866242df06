"""`toolscout serve`: run the gateway over stdio or HTTP."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..config import Config
from ..events import combine_sinks, guard_sink
from .config_options import feature_options, servers_option
from .serve_log import (
    LogFormat,
    adopt_foreign_logs,
    build_sink,
    configure_logs,
    print_welcome,
)

if TYPE_CHECKING:
    from ..gateway.setup import Setup

log = logging.getLogger(__name__)
DEFAULT_PORT = 8765
_MAX_PORT = 65_535
_WELCOME = """\
Toolscout serves {servers} at {url}{path}

Connect a client:
  Claude Code   claude mcp add --transport http toolscout {url}{path}
  others        {{"mcpServers": {{"toolscout": {{"url": "{url}{path}"}}}}}}

{hint}
Status: {url}/health   Metrics: {url}/metrics   Stop: Ctrl-C
"""
_LOGIN_HINT = "Clients have to send a token: Authorization: Bearer TOKEN\n"
_MAX_NAMES = 8
_TRY = "Ask it for something its tools can do; it will look for the right one."
_TRY_EXAMPLE = (
    'Ask it: "Which images of the lake does the site have?" or "What time is it in Tokyo?"'
)


class Address(click.ParamType[tuple[str, int]]):
    """HOST:PORT, with either part optional."""

    name = "HOST:PORT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Parse an address."""
        if isinstance(value, tuple):
            return value  # pyright: ignore[reportUnknownVariableType] -- converted before
        host, colon, port = str(value).rpartition(":")
        if not colon:  # only a host, or only a port
            host, port = (port, "") if not port.isdigit() else ("", port)
        try:
            number = int(port or DEFAULT_PORT)
        except ValueError:
            self.fail(f"{value!r} is not HOST:PORT.", param, ctx)
        if not 0 <= number <= _MAX_PORT:
            self.fail(f"{number} is not a port: they end at {_MAX_PORT}.", param, ctx)
        return host.strip("[]") or "127.0.0.1", number


@click.command(name="serve")
@servers_option(is_required=False)
@click.option("--example", "is_example", is_flag=True, help="Serve the embedded example.")
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
@feature_options
@click.option("--session", default="", metavar="ID", help="Keep the conversation under this id.")
@click.option(
    "--log",
    "log_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How stderr reports searches, calls and server changes.",
)
@click.option(
    "--queries/--no-queries",
    "show_queries",
    default=None,
    help="Whether these lines quote what was searched for.  [default: queries]",
)
@click.option("--quiet", "is_quiet", is_flag=True, help="Print only warnings and errors.")
@click.option(
    "--verbose", "is_verbose", is_flag=True, help="Print messages of the libraries as well."
)
def command(
    *,
    path: Path | None,
    is_example: bool,
    is_stdio: bool,
    address: tuple[str, int] | None,
    session: str,
    log_format: LogFormat,
    is_quiet: bool,
    is_verbose: bool,
    **overrides: Any,
) -> None:
    """Put all MCP servers of a configuration behind one.

    Clients see a search, a description and a call in place of every tool. Edits of the
    configuration apply without a restart. On stderr there is a line for each search, call and
    server change.
    """
    if is_quiet and is_verbose:
        raise click.UsageError("Choose --quiet or --verbose, not both.")
    if is_stdio and address is not None:
        raise click.UsageError("Choose --stdio or --http, not both.")
    if (path is None) != is_example:
        raise click.UsageError("Give the servers with --config FILE, or try --example.")
    configure_logs(log_format, is_quiet=is_quiet, is_verbose=is_verbose)
    config = None
    if path is None:
        from .example import write_example_config

        home = Config.read().state_folder / "example"
        config = Config.read(home=str(home))
        path = write_example_config(home)
    with _pause_gc():
        runner = GatewayRunner(
            path, overrides, session=session, config=config, log_format=log_format
        )
    if is_stdio:
        runner.serve_stdio()
    else:
        runner.serve_http(*(address or ("127.0.0.1", DEFAULT_PORT)))


@contextmanager
def _pause_gc() -> Generator[None]:
    # Imports create many objects that live as long as the process. Collecting while they are made
    # finds nothing, and freeze() keeps later collections from looking at them again.
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class GatewayRunner:
    """One run of the gateway."""

    def __init__(
        self,
        path: Path,
        overrides: Mapping[str, Any],
        *,
        session: str,
        config: Config | None,
        log_format: LogFormat = "text",
    ) -> None:
        # Imported here: FastMCP is slow to import, and other commands do not need it.
        from ..gateway import gateway, server
        from ..gateway.client import auth
        from ..telemetry.export import open_telemetry

        adopt_foreign_logs()
        self._auth, self._server = auth, server
        self._path = path
        self._overrides = overrides
        self._config = config
        setup = self.read_setup()
        # Before the welcome is printed, so that a wrong setting is the last line the user sees.
        auth.check_auth(setup.settings.auth)
        for text in (*setup.document.warnings, *setup.problems):
            log.warning("%s", text)
        self._telemetry = open_telemetry(setup.settings.telemetry)
        self._log_format: LogFormat = log_format
        lines = build_sink(log_format, shows_queries=setup.shows_queries, known=setup.problems)
        sinks = (lines, self._telemetry) if self._telemetry else (lines,)
        sink = combine_sinks(*map(guard_sink, sinks))
        self._gateway = gateway.Gateway(setup, session=session, sink=sink)

    def read_setup(self) -> Setup:
        """Read the configuration as it is now."""
        from ..gateway.setup import Setup

        return Setup.read(self._path, overrides=self._overrides, config=self._config)

    def _welcome(self, text: str, **facts: object) -> None:
        facts = {**facts, "servers": self._server_names}
        print_welcome(text, log_format=self._log_format, facts=facts)

    @property
    def _server_names(self) -> list[str]:
        return [s.name for s in self._gateway.setup.document.servers if not s.is_disabled]

    def serve_stdio(self) -> None:
        """Serve one client until it disconnects."""
        names = _join_names(self._server_names)
        self._welcome(f"Toolscout serves {names} over stdio.\n", transport="stdio")
        asyncio.run(
            self._server.serve_stdio(
                self._gateway, read_setup=self.read_setup, telemetry=self._telemetry
            )
        )

    def serve_http(self, host: str, port: int) -> None:
        """Print how to connect, and serve clients until stopped."""
        self._auth.check_exposure(host, self._gateway.setup.settings.auth)
        listener = self._server.bind_socket(host, port)
        url_host = f"[{host}]" if ":" in host else host
        setup = self._gateway.setup
        names = _join_names(self._server_names)
        hint = _TRY_EXAMPLE if self._config is not None else _TRY
        url = f"http://{url_host}:{listener.getsockname()[1]}"
        text = _WELCOME.format(servers=names, url=url, path=self._server.PATH, hint=hint)
        login_hint = _LOGIN_HINT if setup.settings.auth.is_set else ""
        self._welcome(f"{text}{login_hint}\n", transport="http", url=f"{url}{self._server.PATH}")
        with suppress(KeyboardInterrupt):
            asyncio.run(
                self._server.serve_http(
                    self._gateway,
                    listener,
                    read_setup=self.read_setup,
                    telemetry=self._telemetry,
                )
            )


def _join_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    shown = ", ".join(names[:_MAX_NAMES]) or "no servers yet"
    return f"{shown} and {more} more" if more > 0 else shown
