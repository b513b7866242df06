"""`toolscout serve`: run the gateway over stdio or HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .config_options import feature_options, find_servers_file, overlay_option, servers_option
from .greeting import Greeting, fixed_greeting
from .kept_greeting import KeptGreeting
from .launch import Launch, pause_gc
from .serve_log import LogFormat
from .stdio_front import StdioFront
from .workers import run_workers

DEFAULT_PORT = 8765
_MAX_PORT = 65_535
_MAX_WORKERS = 64  # as in the setting, whose module is slow to import


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
@click.option(
    "--workers",
    type=click.IntRange(1, _MAX_WORKERS),
    metavar="NUMBER",
    help="Serve HTTP with this many processes, to use several cores.  [default: 1]",
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
) -> int:
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
    if is_stdio and overrides["workers"] is not None:
        raise click.UsageError(
            "--workers is for HTTP: over --stdio there is one client and one process."
        )
    if path is not None and is_example:
        raise click.UsageError("Choose --config FILE or --example, not both.")
    launch = Launch(
        path=path if is_example else find_servers_file(path),
        overrides=overrides,
        project=project,
        session=session,
        log_format=log_format,
        is_quiet=is_quiet,
        is_verbose=is_verbose,
    )
    launch.configure_logs()
    if not is_stdio:
        return _serve_http(launch, address or ("127.0.0.1", DEFAULT_PORT))
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
    return 0


def _serve_http(launch: Launch, address: tuple[str, int]) -> int:
    with pause_gc():
        reader = launch.open_reader()
        setup = reader.read_first()
        runner = launch.build_runner(reader, setup) if setup.options.workers == 1 else None
    if runner is None:
        return run_workers(launch, reader, setup, address=address)
    runner.serve_http(*address)
    return 0


def _open_front(launch: Launch, kept: KeptGreeting | None) -> StdioFront:
    # A continued conversation may have more in its instructions.
    greeting = Greeting() if launch.session else fixed_greeting(launch.path, launch.overrides)
    if kept is not None and (known := kept.load()):
        greeting = known.or_else(greeting)
    front = StdioFront(greeting, on_answer=kept.save if kept is not None else None)
    front.start()
    return front
