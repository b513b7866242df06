"""What is printed: tables for a reader, lines for a pipe, JSON for a script."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    # Only what is printed for a person needs it: a gateway starts without.
    from rich.console import Console
    from rich.progress import Progress

ProgressReporter = Callable[[str, int, int], None]
"""Told what is being done, and how many of how many are done."""

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def json_option(function: Decorated) -> Decorated:
    """`--json`: everything as JSON, errors too."""
    return click.option("--json", "is_json", is_flag=True, help="Print JSON.")(function)


def is_terminal() -> bool:
    """Whether a person reads the output, rather than a pipe or a file."""
    from rich.console import Console

    return Console().is_terminal


def print_json(value: object, *, is_line: bool = False) -> None:
    """Print a value for a script; one of many goes on a line of its own."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=None if is_line else 2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
    """Print rows as a table on a terminal, as lines with tabs between otherwise."""
    if not is_terminal():
        for row in rows:
            click.echo("\t".join(" ".join(cell.split()) for cell in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", style="cyan" if number == 0 else None)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def print_line(text: str, *, style: str = "") -> None:
    """Print a line for a reader."""
    _console().print(text, style=style or None)


def print_note(text: str) -> None:
    """Print a remark on the output: dim on a terminal, else a comment that scripts can skip."""
    if is_terminal():
        print_line(text, style="dim")
    else:
        click.echo(f"# {text}")


def warn(text: str) -> None:
    """Tell something that is worth knowing, beside the output; as JSON where that is asked for."""
    context = click.get_current_context(silent=True)
    if context is not None and context.params.get("is_json"):
        click.echo(json.dumps({"warning": {"message": text}}, ensure_ascii=False), err=True)
        return
    _console(is_error=True).print(text, style="yellow")


def _console(*, is_error: bool = False) -> Console:
    """A console that prints text as it is: no markup, no emoji codes, no guessed colours."""
    from rich.console import Console

    return Console(stderr=is_error, soft_wrap=True, markup=False, emoji=False, highlight=False)


def print_error(
    code: str, message: str, *, hint: str = "", position: int | None = None, is_json: bool = False
) -> None:
    """Tell on stderr what went wrong and what to do next."""
    if is_json:
        error: dict[str, Any] = {"code": code, "message": message, "hint": hint}
        if position is not None:
            error["position"] = position
        click.echo(json.dumps({"error": error}, ensure_ascii=False), err=True)
        return
    console = _console(is_error=True)
    console.print("Error:", style="bold red", end=" ")
    console.print(message)
    if hint:
        console.print(hint)


@contextmanager
def progress() -> Generator[ProgressReporter]:
    """A bar on stderr for work that takes a while, if somebody is there to see it."""
    if not sys.stderr.isatty():
        yield lambda _label, _done, _total: None
        return
    bar = _progress_bar()
    with bar:
        tasks: dict[str, Any] = {}

        def step(label: str, done: int, total: int) -> None:
            if label not in tasks:
                tasks[label] = bar.add_task(label, total=total)
            bar.update(tasks[label], completed=done, total=total)

        yield step


def _progress_bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
