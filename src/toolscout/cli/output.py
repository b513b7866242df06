"""Output of commands: tables on a terminal, tab-separated lines in a pipe, or JSON.

Commands print through these functions alone. Text of servers and models may be in all that is
printed, so characters that a reader cannot see are printed as codes, such as `<U+001B>`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..catalog.sanitization import escape_json, reveal_hidden, reveal_line

if TYPE_CHECKING:
    # Rich is imported where it is used: a gateway must start without loading it.
    from rich.console import Console

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def json_option(function: Decorated) -> Decorated:
    """`--json`: print everything as JSON, including errors."""
    return click.option("--json", "is_json", is_flag=True, help="Print JSON.")(function)


def count_noun(count: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def is_terminal() -> bool:
    """Whether the output is a terminal, rather than a pipe or a file."""
    from rich.console import Console

    return Console().is_terminal


def print_json(value: object, *, is_line: bool = False) -> None:
    """Print a value as JSON, on one line if it is one of many."""
    click.echo(encode_output(value, indent=None if is_line else 2))


def encode_output(value: object, *, indent: int | None = None) -> str:
    """A value as JSON, in which characters that a reader cannot see are escaped."""
    return escape_json(json.dumps(value, ensure_ascii=False, indent=indent))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str = "",
    has_header: bool = False,
) -> None:
    """Print rows as a table on a terminal, else as tab-separated lines.

    `has_header` prints the names of the columns in a pipe too.
    """
    if not is_terminal():
        rows = [columns, *rows] if has_header else rows
        for row in rows:
            print_cells(row)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console, cells = Console(), [*rows]
    widths = [
        max((len(word) for row in cells for word in row[n].split()), default=0)
        for n in range(len(columns))
    ]
    # Words such as names stay whole, as long as there is room for that.
    has_room = sum(widths) + 3 * len(widths) + 1 <= console.width
    table = Table(title=title or None, title_justify="left", header_style="bold")
    for number, column in enumerate(columns):
        style = "cyan" if number == 0 else None
        table.add_column(
            column, overflow="fold", style=style, min_width=widths[number] if has_room else None
        )
    for row in cells:
        table.add_row(*(Text(reveal_line(cell)) for cell in row))
    console.print(table)


def print_cells(cells: Iterable[str]) -> None:
    """Print cells as one line with tabs."""
    click.echo("\t".join(" ".join(reveal_line(cell).split()) for cell in cells))


def print_line(text: str, *, style: str = "") -> None:
    """Print one line: a line break in the text of a server cannot begin another."""
    _console().print(reveal_line(text), style=style or None)


def print_text(text: str, *, is_error: bool = False) -> None:
    """Print text of several lines."""
    click.echo(reveal_hidden(text), err=is_error)


def indent_lines(text: str, width: int) -> str:
    """Text whose further lines are indented, so that none looks like a line of the program."""
    return text.replace("\n", f"\n{' ' * width}")


def print_note(text: str) -> None:
    """Print a remark: dim on a terminal, else as a `#` comment that scripts can skip."""
    if is_terminal():
        print_line(text, style="dim")
    else:
        click.echo(f"# {reveal_line(text)}")


def warn(text: str) -> None:
    """Print a warning to stderr, as JSON if the command has `--json`."""
    context = click.get_current_context(silent=True)
    if context is not None and context.params.get("is_json"):
        click.echo(encode_output({"warning": {"message": text}}), err=True)
        return
    _console(is_error=True).print(_show_message(text), style="yellow")


def _show_message(text: str) -> str:
    return indent_lines(reveal_hidden(text), 2)


def _console(*, is_error: bool = False) -> Console:
    """A console that prints text unchanged."""
    # Tool descriptions are untrusted: `[red]` or `:smile:` in them must not be interpreted.
    from rich.console import Console

    return Console(stderr=is_error, soft_wrap=True, markup=False, emoji=False, highlight=False)


def print_error(
    code: str, message: str, *, hint: str = "", position: int | None = None, is_json: bool = False
) -> None:
    """Print an error and its hint to stderr."""
    if is_json:
        error: dict[str, Any] = {"code": code, "message": message, "hint": hint}
        if position is not None:
            error["position"] = position
        click.echo(encode_output({"error": error}), err=True)
        return
    console = _console(is_error=True)
    console.print("Error:", style="bold red", end=" ")
    console.print(_show_message(message))
    if hint:
        console.print(_show_message(hint))
