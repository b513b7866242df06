"""Write the parts of the docs that repeat the code: `python scripts/pages.py`, or `make docs`.

A page has a pair of comments around each piece that is written here; a test compares the pieces
with what would be written now.
"""

from __future__ import annotations

import ast
import re
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args, get_type_hints

import click

from toolscout import events
from toolscout.agent.stream_events import STREAM_EVENTS
from toolscout.cli.app import COMMANDS, app
from toolscout.config import settings_table

PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src" / "toolscout"
DOCS = PROJECT / "docs"
WIDTH = 96
PIECE = re.compile(
    r"(<!-- (?P<name>[a-z]+): written by scripts/pages\.py -->\n).*?(<!-- /(?P=name) -->)",
    re.DOTALL,
)
LAYERS = (
    ("__main__", "`python -m toolscout`."),
    ("cli", "The command line connects the parts."),
    ("console", "Web pages that show what a gateway does."),
    ("gateway · evals · examples", "Independent programs on top of the toolbox."),
    ("agent", "The loop."),
    ("toolbox", "The façade: search, load, call, view."),
    ("journal", "What happened, row by row."),
    (
        "models · guidance · memory · offload · code_mode · telemetry",
        "Independent features.",
    ),
    ("learning", "Which tools are called after which requests."),
    ("disclosure", "What the model sees now."),
    ("search · sources", "Which tools fit, and where tools come from."),
    ("embedders", "Turns texts into vectors."),
    ("catalog · store", "The tools that exist, and storage."),
    ("events · config · tokens", "Used by every layer above."),
    (
        "folders · program · toml_edit",
        "A user's files, how to edit them, and how to run Toolscout.",
    ),
    ("errors", "All exceptions."),
)


def modules() -> str:
    """Every module with the first line of its docstring, layer by layer from the top."""
    pieces: list[str] = []
    for parts, words in LAYERS:
        found = [line for part in parts.split(" · ") for line in _of(part)]
        if found:
            pieces.append(f"## {parts}\n\n{words}\n\n" + "\n".join(found) + "\n")
    return "\n".join(pieces)


def _of(part: str) -> Iterator[str]:
    folder = SOURCE / part
    paths = sorted(folder.rglob("*.py")) if folder.is_dir() else [SOURCE / f"{part}.py"]
    for path in paths:
        if path.exists():
            name = path.relative_to(SOURCE).as_posix().removesuffix("/__init__.py")
            yield f"- `{name}`: {_first_line(path)}"


def _first_line(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def commands() -> str:
    """The `--help` of every command, as it is printed."""
    return "\n".join(
        f"## {path}\n\n```text\n{text}\n```\n" for path, text in _helps(app, "toolscout", None)
    )


def _helps(
    command: click.Command, path: str, above: click.Context | None
) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command,
        info_name=path.rpartition(" ")[2],
        parent=above,
        terminal_width=WIDTH,
        **command.context_settings,
    )
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _helps(inner, f"{path} {name}", context)


def decisions() -> str:
    """The decision pages by their titles."""
    lines: list[str] = []
    for path in sorted((DOCS / "decisions").glob("*.md")):
        if path.name != "README.md":
            title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
            lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines) + "\n"


def behaviours() -> str:
    """The exemptions from the table of behaviours, and the behaviours that we meet another way."""
    sys.path.insert(0, str(PROJECT))
    from tests.behaviours.table import read

    table = read()
    lines: list[str] = []
    for title, said in (("Not there", table.exempt), ("Met another way", table.differs)):
        lines += [f"### {title}", "", "| row | about | reason |", "|---|---|---|"]
        lines += [f"| {row} | {table.rows[row]} | {why} |" for row, why in said.items()]
        lines += [""]
    return "\n".join(lines)


EVENT_GROUPS = (
    ("Of a toolbox", events.TOOLBOX_EVENTS),
    ("Of an agent's run", events.RUN_EVENTS),
    ("Of a streamed run, from `agent.stream`", STREAM_EVENTS),
    ("Of MCP servers and the gateway", events.SERVER_EVENTS),
    ("Of rules and large results", events.FEATURE_EVENTS),
    ("For code that uses the parts alone", events.PART_EVENTS),
)


def event_tables() -> str:
    """The envelope, and every class of events with what happened and its fields."""
    pieces = ["## The envelope", "", "| field | type | meaning |", "|---|---|---|"]
    hints = get_type_hints(events.Event, include_extras=True)
    for name in events.ENVELOPE:
        kind, words = get_args(hints[name])
        pieces.append(f"| `{name}` | `{kind.__name__}` | {words} |")
    for title, classes in EVENT_GROUPS:
        pieces += ["", f"## {title}", "", "| kind | class | what happened | fields |"]
        pieces += ["|---|---|---|---|"]
        for cls in classes:
            row = (f"`{cls.kind}`", f"`{cls.__name__}`", cls.__doc__ or "", _event_fields(cls))
            pieces.append(f"| {' | '.join(row)} |")
    return "\n".join(pieces) + "\n"


def _event_fields(cls: type[events.Event]) -> str:
    hints = get_type_hints(cls, include_extras=True)
    words: list[str] = []
    for name in events.fact_names(cls):
        text = get_args(hints[name])[1]
        mark = " (private)" if name in cls.private else ""
        words.append(f"`{name}`{mark}: {text}")
    return "<br>".join(words)


def escapes() -> str:
    """The ways out of a program that are tried, by kind."""
    kinds: dict[str, list[str]] = {}
    known = runpy.run_path(str(PROJECT / "tests" / "code_mode" / "escapes.py"))["ESCAPES"]
    for escape in known:
        kinds.setdefault(escape.kind, []).append(escape.title)
    rows = [f"| {kind} | {len(titles)} | {', '.join(titles)} |" for kind, titles in kinds.items()]
    head = f"| {len(known)} attempts | | |\n|---|---|---|"
    return "\n".join((head, *rows)) + "\n"


PIECES: dict[str, Callable[[], str]] = {
    "modules": modules,
    "commands": commands,
    "decisions": decisions,
    "behaviours": behaviours,
    "events": event_tables,
    "escapes": escapes,
    "settings": lambda: settings_table() + "\n",
}
PAGES = (
    DOCS / "reference" / "modules.md",
    DOCS / "reference" / "commands.md",
    DOCS / "decisions" / "README.md",
    DOCS / "reference" / "behaviours.md",
    DOCS / "events.md",
    DOCS / "code-mode.md",
)


def written(text: str) -> str:
    """A page with all its pieces written from the current code."""
    return PIECE.sub(lambda m: f"{m[1]}\n{PIECES[m['name']]()}\n{m[3]}", text)


def main() -> None:
    """Write every page that has such pieces; pages that are right are left alone."""
    assert set(COMMANDS) == set(app.list_commands(click.Context(app)))
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = written(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"written: {page.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()
