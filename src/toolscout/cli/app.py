"""The `toolscout` command: the list of commands, lazy loading, and error reporting."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module, metadata
from io import TextIOWrapper
from itertools import pairwise

import click

from ..errors import QueryError, ToolscoutError
from ..program import command_line, set_state_file
from .output import print_error, print_text

EXIT_USAGE = 2
_PINS_COMMANDS = ("approve", "revoke", "diff")
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is imported on use; its module defines it under `attribute`."""

    module: str
    summary: str
    attribute: str = "command"


COMMANDS = {
    "search": Command("search", "Find tools for a query, once or interactively."),
    "call": Command("call", "Run one tool of your servers, as a gateway would."),
    "serve": Command("serve", "Serve many MCP servers as one."),
    "check": Command("check", "Check that every MCP server works, and what its tools cost."),
    "add": Command("add", "Add an MCP server, after a check that it works."),
    "remove": Command("servers", "Remove MCP servers.", "remove_command"),
    "enable": Command("servers", "Enable MCP servers.", "enable_command"),
    "disable": Command("servers", "Disable MCP servers without removing them.", "disable_command"),
    "list": Command("list_servers", "List your MCP servers, without starting them."),
    "login": Command("login", "Log in to an MCP server that asks for it."),
    "pins": Command("pins", "Review and approve the tools of MCP servers."),
    "policies": Command("policies", "Show what a caller may see and call, and why."),
    "logs": Command("logs", "Print the log of an MCP server, and why it fails."),
    "journal": Command("journal", "Read the record of searches, calls, refusals and approvals."),
    "misses": Command("misses", "List searches that missed, to add phrases to tools."),
    "stats": Command("stats", "Show calls, errors, latency and saved tokens over time."),
    "audit": Command("audit", "Verify that nobody changed the journal."),
    "learn": Command("learn", "Show, reset and seed what search has learned from calls."),
    "state": Command("state", "Back up and restore sessions, pins, logins and the journal."),
    "store": Command("store", "Check, migrate and copy the store: SQLite or PostgreSQL."),
    "import": Command("import_servers", "Import the MCP servers of other clients."),
    "bench": Command("bench", "Measure search on labelled queries."),
    "tokens": Command("tokens", "Count the tokens that tools cost under each profile."),
    "catalog": Command("catalog", "List, show and validate the tools of a catalog."),
    "chat": Command("chat", "Chat with a model that finds its tools."),
    "demo": Command("demo", "Ask the example a few questions and count the tokens."),
    "completion": Command("completion", "Print a shell's completion script."),
}
"""Every command, in the order of `--help`."""


class LazyGroup(click.Group):
    """Commands by name; only the one that runs is imported, so that the program starts fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - required by click
        """The names in order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            if cmd_name in _PINS_COMMANDS and not ctx.resilient_parsing:
                meant = command_line("pins", cmd_name)
                ctx.fail(f"There is no command {cmd_name!r}. Did you mean {meant}?")
            near = get_close_matches(cmd_name, COMMANDS, n=1)
            if near and not ctx.resilient_parsing:
                ctx.fail(f"There is no command {cmd_name!r}. Did you mean {near[0]}?")
            return None
        module = import_module(f".{entry.module}", __package__)
        command = getattr(module, entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - required by click
        """List commands by their summaries, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(metadata.version("toolscout"), prog_name="toolscout")
def app() -> None:
    """Tool search for LLM agents: find the right one of ten thousand tools.

    Run `toolscout search` to try it on the embedded example catalog.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; errors are printed, not raised."""
    # A terminal may lack characters of a tool's description; that must not end the program.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    # Read before parsing, because errors of parsing are printed as JSON too.
    is_json = _wants_json(_before_dashes(arguments))
    try:
        code = app.main(list(arguments), prog_name="toolscout", standalone_mode=False)
    except click.Abort:
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        # Without a command there is nothing wrong: the help says which there are.
        print_text(error.ctx.get_help() if error.ctx else error.format_message())
        return 0
    except click.ClickException as error:
        print_error("usage", error.format_message(), hint=_usage_hint(error), is_json=is_json)
        return error.exit_code
    except ToolscoutError as error:
        position = error.position if isinstance(error, QueryError) else None
        # The text of an error ends with its hint, which is printed separately.
        message = error.message if is_json else str(error).removesuffix(error.hint.rstrip()).strip()
        print_error(error.code, message, hint=error.hint, position=position, is_json=is_json)
        return EXIT_USAGE
    finally:
        # A program may run several commands; the configuration of one says nothing about the next.
        set_state_file(None)
    return code if isinstance(code, int) else 0


def _usage_hint(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return ""
    see = f"See {command_line(*context.command_path.split()[1:], '--help')}."
    if isinstance(error, click.NoSuchOption) and context.command.name == "search":
        return f"{see} Put a query that begins with - after --."
    return see


def _wants_json(arguments: Sequence[str]) -> bool:
    is_pair = ("--log", "json") in pairwise(arguments)
    return is_pair or "--json" in arguments or "--log=json" in arguments


def _before_dashes(arguments: Sequence[str]) -> Sequence[str]:
    return arguments[: list(arguments).index("--")] if "--" in arguments else arguments
