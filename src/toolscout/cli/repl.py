"""Interactive search: one query per line, until `quit` or the end of input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

import click

from ..catalog.catalog import Catalog
from ..catalog.sanitization import reveal_line
from ..catalog.tool_text import describe_tool
from ..errors import ToolscoutError
from ..examples import QUESTIONS
from ..search.hit import Results
from .catalog_options import nearest_names
from .output import print_error, print_line, print_text, warn

if TYPE_CHECKING:
    from ..gateway.upstream.held_tools import HeldTools

PROMPT = "search> "
_MAX_DEMO = 3
# Alone, these words are for the program. A tool of that name is found by select:help.
_HELP_WORDS = ("help", "?", ":help", ":h", ":?")
_QUIT_WORDS = ("quit", "exit", ":quit", ":q", ":exit", ":q!", "quit()", "exit()")
HELP = """\
Type what you need, in any language. Also:
  select:a,b    these tools by name        +word    must occur       -word    must not
  server:name   only of this server        category:name             /regex/  by pattern
  :show NAME    one tool in full           :list    all names        help, ?  this
  quit, exit    leave (as do :q and Ctrl-D)"""

SearchCallback = Callable[[Sequence[str]], Results]


def run_repl(
    catalog: Catalog,
    search: SearchCallback,
    *,
    first: Sequence[str] = (),
    held: HeldTools | None = None,
) -> None:
    """Answer lines until the input ends; if it is empty, ask a few example questions."""
    is_interactive = sys.stdin.isatty()
    if is_interactive:
        print_line(f"{len(catalog)} tools. Say what you need; help tells more, quit leaves.")
    count = 0
    for line in _read_lines(first, is_interactive=is_interactive):
        if line.casefold() in _QUIT_WORDS:
            return
        count += 1
        _run_line(catalog, search, line, held)
    # Without any input, as in a container or CI, the command still shows what it does.
    if not count and not is_interactive:
        for query, _ in QUESTIONS[:_MAX_DEMO]:
            print_line(f"{PROMPT}{query}", style="bold")
            _run_line(catalog, search, query, held)


def _read_lines(first: Sequence[str], *, is_interactive: bool) -> Iterator[str]:
    yield from first
    if is_interactive:
        _enable_history()
    while True:
        try:
            line = (input(PROMPT) if is_interactive else input()).strip()
        except (EOFError, KeyboardInterrupt):
            return
        if line:
            yield line


def _enable_history() -> None:
    """Enable arrow keys and history if the platform has readline."""
    with suppress(ImportError):
        import_module("readline")


def _is_json() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.params.get("is_json"))


def _say(text: str) -> None:
    """Print lines; with --json to stderr, because stdout has one line of JSON per query."""
    warn(text) if _is_json() else print_text(text)


def _run_line(catalog: Catalog, search: SearchCallback, line: str, held: HeldTools | None) -> None:
    if line.casefold() in _HELP_WORDS:
        _say(HELP)
        return
    if not line.startswith(":"):
        try:
            search([line])
        except ToolscoutError as error:
            print_error(error.code, str(error), is_json=_is_json())
        return
    word, _, rest = line.partition(" ")
    match word:
        case ":show" if not rest.strip():
            _say("Name a tool: :show NAME. See all names with :list.")
        case ":show":
            _print_tool(catalog, rest.strip(), held)
        case ":list":
            _say("\n".join(map(reveal_line, catalog.tools)))
        case _:
            _say(f"There is no {reveal_line(word)}. {HELP}")


def _print_tool(catalog: Catalog, name: str, held: HeldTools | None) -> None:
    names = catalog.resolve(name)
    if names:
        _say("\n\n".join(describe_tool(catalog[n]) for n in names))
    elif error := held.explain(name, None) if held else None:
        print_error(error.code, error.message, hint=error.hint, is_json=_is_json())
    else:
        near = ", ".join(nearest_names(catalog, name)) or "nothing"
        _say(f"No tool is named {reveal_line(name)!r}. Near: {near}.")
