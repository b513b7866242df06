"""`toolscout serve`: run the gateway over stdio or HTTP."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..folders import find_settings_file
from .config_options import feature_options, find_servers_file, overlay_option, servers_option
from .greeting import Greeting, fixed_greeting
from .kept_greeting import KeptGreeting, greetings_folder
from .serve_log import (
    LogFormat,
    adopt_foreign_logs,
    build_sink,
    configure_logs,
    print_welcome,
)
from .stdio_front import StdioFront

if TYPE_CHECKING:
    from ..config import Config
    from ..gateway.identity.browser_login import BrowserLogin
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
_LINK = "Log in with a browser (once, within {minutes:g} minutes): {url}{path}\n"
_MAX_NAMES = 8
_TRY = "Ask it for something its tools can do; it will look for the right one."
_TRY_EXAMPLE = 'Ask it: "Mail the invoice to Ann" or "Will I need an umbrella tomorrow?"'


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
            if host and "." not in host and host != "localhost":
                self.fail(f"{value!r} has no port: write it as HOST:PORT.", param, ctx)
        try:
            number = int(port or DEFAULT_PORT)
        except ValueError:
            self.fail(f"{value!r} is not HOST:PORT.", param, ctx)
        if not 0 <= number <= _MAX_PORT:
            self.fail(f"{number} is not a port: the highest is {_MAX_PORT}.", param, ctx)
        return host.strip("[]") or "127.0.0.1", number


@click.command(name="serve")
@servers_option
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
    help="How long the first searches wait for servers that were never listed.",
)
@feature_options
@overlay_option
@click.option(
    "--project",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    metavar="FOLDER",
    help="Include the servers of this project.  [default: the current folder]",
)
@click.option(
    "--tls-cert",
    type=click.Path(dir_okay=False, resolve_path=True, path_type=Path),
    metavar="FILE",
    help="Serve over HTTPS, with this certificate.",
)
@click.option(
    "--tls-key",
    type=click.Path(dir_okay=False, resolve_path=True, path_type=Path),
    metavar="FILE",
    help="The private key of the certificate.",
)
@click.option("--session", default="", metavar="ID", help="Store the conversation under this id.")
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
    help="Whether these lines contain the queries.  [default: queries]",
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
    project: Path | None,
    session: str,
    log_format: LogFormat,
    is_quiet: bool,
    is_verbose: bool,
    **overrides: Any,
) -> None:
    """Serve all MCP servers of a configuration as one.

    Clients see tools to search, describe and call, instead of every tool. Edits of the
    configuration apply without a restart. stderr gets a line for each search, call and server
    change.
    """
    if is_quiet and is_verbose:
        raise click.UsageError("Choose --quiet or --verbose, not both.")
    if is_stdio and address is not None:
        raise click.UsageError("Choose --stdio or --http, not both.")
    if is_stdio and (overrides["tls_cert"] or overrides["tls_key"]):
        raise click.UsageError("--tls-cert and --tls-key are for HTTP, not for --stdio.")
    if path is not None and is_example:
        raise click.UsageError("Choose --config FILE or --example, not both.")
    configure_logs(log_format, is_quiet=is_quiet, is_verbose=is_verbose)
    if not is_example:
        path = find_servers_file(path)
    launch = _Launch(path, overrides, project=project, session=session, log_format=log_format)
    if not is_stdio:
        launch.load_gateway().serve_http(*(address or ("127.0.0.1", DEFAULT_PORT)))
        return
    # Before anything else is imported: the client waits for its first answer.
    kept = launch.find_kept_greeting()
    front = _open_front(launch, kept)
    try:
        runner = launch.load_gateway()
        if kept is not None:
            kept.begin(runner.greeting_inputs())
        runner.serve_stdio(front)
    finally:
        front.close()


@dataclass(frozen=True, slots=True)
class _Launch:
    """What `serve` was asked for; without a path, the built-in example."""

    path: Path | None
    overrides: Mapping[str, Any]
    project: Path | None
    session: str
    log_format: LogFormat

    def find_kept_greeting(self) -> KeptGreeting | None:
        # A continued conversation may have more in its instructions.
        if self.path is None or self.session:
            return None
        return KeptGreeting(self.path, self.overrides, project=self.project or Path.cwd())

    def load_gateway(self) -> GatewayRunner:
        path, config = (self.path, None) if self.path is not None else _example()
        with _pause_gc():
            return GatewayRunner(
                path,
                self.overrides,
                session=self.session,
                config=config,
                folder=self.project,
                log_format=self.log_format,
            )


def _open_front(launch: _Launch, kept: KeptGreeting | None) -> StdioFront:
    # A continued conversation may have more in its instructions.
    greeting = Greeting() if launch.session else fixed_greeting(launch.path, launch.overrides)
    if kept is not None and (known := kept.load()):
        greeting = known.or_else(greeting)
    front = StdioFront(greeting, on_answer=kept.save if kept is not None else None)
    front.start()
    return front


def _example() -> tuple[Path, Config]:
    """The configuration of the example, and settings with a separate home."""
    from importlib.metadata import version

    from ..catalog.tool import digest
    from ..config import Config
    from ..examples import CATALOG
    from .example import write_example_config

    # By version: after an update the example's tools are new ones, not changed ones to approve.
    edition = digest(version("toolscout"), CATALOG.read_text(encoding="utf-8"))
    home = Config.read().state_folder / f"example-{edition}"
    return write_example_config(home), Config.read(home=str(home))


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
        folder: Path | None = None,
        log_format: LogFormat = "text",
    ) -> None:
        # Imported here: FastMCP is slow to import. Other commands do not need it, and a client over
        # stdio has its first answer before.
        from ..events import combine_sinks, guard_sink
        from ..gateway import gateway, server, tls
        from ..gateway.client import auth
        from ..gateway.identity import browser_login
        from ..telemetry.export import open_telemetry

        adopt_foreign_logs()
        self._auth, self._server, self._logins = auth, server, browser_login
        self._path = path
        self._overrides = overrides
        self._config = config
        self._folder = folder
        setup = self.read_setup()
        # Before the welcome is printed, so that a wrong setting is the last line the user sees.
        auth.check_auth(setup.settings.auth)
        tls.load_certificate(setup.tls_files)
        for text in (*setup.document.warnings, *setup.problems):
            log.warning("%s", text)
        self._telemetry = open_telemetry(setup.settings.telemetry)
        self._log_format: LogFormat = log_format
        lines = build_sink(log_format, shows_queries=setup.shows_queries, known=setup.problems)
        sinks = (lines, self._telemetry) if self._telemetry else (lines,)
        sink = combine_sinks(*map(guard_sink, sinks))
        self._gateway = gateway.Gateway(setup, session=session, sink=sink)

    def read_setup(self) -> Setup:
        """Read the current configuration."""
        from ..gateway.setup import Setup

        return Setup.read(
            self._path, overrides=self._overrides, config=self._config, folder=self._folder
        )

    def greeting_inputs(self) -> tuple[Path, ...]:
        """The files that the first answer to a client depends on; empty if it needs more."""
        from ..store.postgres_url import is_postgres_url

        setup = self._gateway.setup
        config, features = setup.config, setup.toolbox_config
        # The documents of APIs may be anywhere, the pins may be in a database, and a kept answer is
        # looked for before the settings are read.
        is_elsewhere = config.cache_folder != greetings_folder().parent
        if setup.apis or is_elsewhere or is_postgres_url(config.store):
            return ()
        folders = (config.cache_folder / "listings", config.state_folder / "pins")
        own = find_settings_file(os.environ)
        files = (self._path, *((own,) if own else ()))
        paths = (*files, *folders, *features.rules, *features.skills)
        return tuple(path.absolute() for path in paths)

    def _welcome(self, text: str, **facts: object) -> None:
        facts = {**facts, "servers": self._server_names}
        print_welcome(text, log_format=self._log_format, facts=facts)

    @property
    def _server_names(self) -> list[str]:
        return [s.name for s in self._gateway.setup.document.servers if not s.is_disabled]

    def serve_stdio(self, front: StdioFront) -> None:
        """Serve one client until it disconnects."""
        names = _join_names(self._server_names)
        self._welcome(f"Toolscout serves {names} over stdio.\n", transport="stdio")
        asyncio.run(
            self._server.serve_stdio(
                self._gateway,
                read_setup=self.read_setup,
                telemetry=self._telemetry,
                feed=front.feed,
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
        scheme = "https" if setup.tls_files else "http"
        url = f"{scheme}://{url_host}:{listener.getsockname()[1]}"
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
                    login=self._open_login(url),
                )
            )

    def _open_login(self, url: str) -> BrowserLogin | None:
        """The logins with a browser; the first link is printed if pages need a login."""
        auth = self._gateway.setup.settings.auth
        # Records in JSON are collected, and who reads them later must not get links.
        if self._log_format == "json":
            return None

        def print_link(path: str) -> None:
            link = _LINK.format(minutes=auth.login_link_minutes, url=url, path=path)
            print_welcome(link, log_format=self._log_format, facts={})

        login = self._logins.BrowserLogin.create(auth, print_link=print_link)
        if auth.is_set:
            login.offer_link()
        return login


def _join_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    shown = ", ".join(names[:_MAX_NAMES]) or "no servers yet"
    return f"{shown} and {more} more" if more > 0 else shown
