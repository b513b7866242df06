"""A conversation with the catalog: a query a line, until `:quit` or the end of input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module

from ..catalog.card import full
from ..catalog.catalog import Catalog
from ..errors import ToolscoutError
from ..search.hit import Results
from .nearest import nearest
from .output import say, tell_error

PROMPT = "search> "
DEMO = ("mail the invoice to Ann", "brauche ich morgen einen Regenschirm?", "server:cms +page")
HELP = """\
Type what you need, in any language. Also:
  select:a,b    these tools by name        +word    must occur       -word    must not
  server:name   only of this server        category:name             /regex/  by pattern
  :show NAME    one tool in full           :list    all names        :help    this
  :quit         leave (as does Ctrl-D)"""

Ask = Callable[[Sequence[str]], Results]


def converse(catalog: Catalog, ask: Ask, *, first: Sequence[str] = ()) -> None:
    """Answer lines until there are no more; with nothing to read, show a few searches."""
    is_person = sys.stdin.isatty()
    if is_person:
        say(f"{len(catalog)} tools. Say what you need; :help tells more, :quit leaves.")
    asked = 0
    for line in _lines(first, is_person=is_person):
        if line in (":quit", ":q", ":exit"):
            return
        asked += 1
        _answer(catalog, ask, line)
    if not asked and not is_person:
        for query in DEMO:
            say(f"{PROMPT}{query}", style="bold")
            _answer(catalog, ask, query)


def _lines(first: Sequence[str], *, is_person: bool) -> Iterator[str]:
    yield from first
    if is_person:
        _with_history()
    while True:
        try:
            line = (input(PROMPT) if is_person else input()).strip()
        except (EOFError, KeyboardInterrupt):
            return
        if line:
            yield line


def _with_history() -> None:
    """Arrow keys and history, where the system has them."""
    with suppress(ImportError):
        import_module("readline")


def _answer(catalog: Catalog, ask: Ask, line: str) -> None:
    if not line.startswith(":"):
        try:
            ask([line])
        except ToolscoutError as error:
            tell_error(error.code, str(error))
        return
    word, _, rest = line.partition(" ")
    match word:
        case ":show":
            _show(catalog, rest.strip())
        case ":list":
            say("\n".join(catalog.tools))
        case ":help" | ":h" | ":?":
            say(HELP)
        case _:
            say(f"There is no {word}. {HELP}")


def _show(catalog: Catalog, name: str) -> None:
    names = catalog.resolve(name)
    if names:
        say("\n\n".join(full(catalog[n]) for n in names))
    else:
        say(f"No tool is named {name!r}. Near: {', '.join(nearest(catalog, name)) or 'nothing'}.")
