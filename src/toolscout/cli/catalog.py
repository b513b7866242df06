"""`toolscout catalog`: lists, shows, validates and lints the tools of a catalog."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..catalog.catalog import Catalog
from ..catalog.lint import lint
from ..catalog.sanitization import first_sentence
from ..catalog.tool_text import describe_tool
from ..catalog.validation import validate as check
from ..errors import UnknownToolError
from ..program import command_line
from . import catalog_lint, phrases
from .catalog_options import (
    PATH,
    catalog_option,
    load_and_warn,
    load_catalog,
    load_with_held,
    nearest_names,
    tool_filter,
)
from .output import (
    count_noun,
    json_option,
    print_error,
    print_json,
    print_line,
    print_table,
    print_text,
)
from .progress import progress

if TYPE_CHECKING:
    from ..gateway.upstream.held_tools import HeldTools

EXIT_PROBLEMS = 1
EXIT_UNKNOWN_TOOL = 1


@click.group(name="catalog")
def command() -> None:
    """List, show and validate the tools of a catalog, and add phrases to them."""


command.add_command(catalog_lint.command)
command.add_command(phrases.command)


@command.command(name="list")
@catalog_option
@click.option("--server", "servers", multiple=True, help="Only tools of this server.")
@click.option("--category", "categories", multiple=True, help="Only tools of this category.")
@json_option
def list_tools(
    *,
    paths: tuple[Path, ...],
    servers: tuple[str, ...],
    categories: tuple[str, ...],
    is_json: bool,
) -> None:
    """List the tools of a catalog."""
    catalog = load_and_warn(paths)
    is_allowed = tool_filter(catalog, servers, ())
    tools = [
        tool
        for tool in catalog
        if (is_allowed is None or is_allowed(tool))
        and (not categories or tool.category in categories)
    ]
    if is_json:
        keys = ("name", "description", "server", "category")
        print_json([{key: getattr(tool, key) for key in keys} for tool in tools])
        return
    print_table(
        ("tool", "server", "category", "what it does"),
        [(t.name, t.server, t.category, first_sentence(t.description)) for t in tools],
        title=f"{len(tools)} tools",
    )


@command.command(name="show")
@click.argument("name")
@catalog_option
@json_option
def show_tool(*, name: str, paths: tuple[Path, ...], is_json: bool) -> int:
    """Show one tool in full; NAME may be in any case style or without its server."""
    catalog, held = load_with_held(paths)
    names = catalog.resolve(name)
    if not names:
        error = held.explain(name, None) if held else None
        error = error or UnknownToolError(
            f"No tool is named {name!r}.", hint=_suggestion(catalog, name, held)
        )
        print_error(error.code, error.message, hint=error.hint, is_json=is_json)
        return EXIT_UNKNOWN_TOOL
    if is_json:
        rows = [catalog[n].row() for n in names]
        print_json(rows[0] if len(rows) == 1 else rows)
    else:
        print_text("\n\n".join(describe_tool(catalog[n]) for n in names))
    return 0


def _suggestion(catalog: Catalog, name: str, held: HeldTools | None) -> str:
    if held and (close := held.suggest(name, None)):
        return " ".join(each.suggestion for each in close)
    near = nearest_names(catalog, name)
    listing = f"List all with: {command_line('catalog', 'list')}"
    return f"Similar names: {', '.join(near)}." if near else listing


@command.command(name="validate")
@click.argument("files", nargs=-1, type=PATH)
@catalog_option
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@json_option
def validate_tools(
    *, files: tuple[Path, ...], paths: tuple[Path, ...], strict: bool, is_json: bool
) -> int:
    """List every problem in FILES and how to fix it.

    The exit code is 1 if there is an error; warnings are advice, unless --strict is given.
    """
    with progress("Checking tools"):
        loaded = load_catalog((*files, *paths))
        report = check(loaded.catalog.tools)
        advice = lint(loaded.catalog)
    problems = (*loaded.problems, *report.errors, *report.warnings, *advice)
    fatal = [p for p in problems if strict or p.severity == "error"]
    if is_json:
        rows = [asdict(problem) for problem in problems]
        print_json({"valid": not fatal, "tools": len(loaded.catalog), "problems": rows})
    else:
        for problem in problems:
            print_line(
                f"{problem.severity}: {problem}", style="red" if problem in fatal else "yellow"
            )
        errors = sum(p.severity == "error" for p in problems)
        warnings = len(problems) - errors
        counts = {"tool": len(loaded.catalog), "error": errors, "warning": warnings}
        print_line(f"{', '.join(count_noun(n, noun) for noun, n in counts.items())}.")
    return EXIT_PROBLEMS if fatal else 0
