"""The conversations of `toolscout demo --profile cms`, played offline, and their tokens."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from importlib import import_module, util
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from ..agent.steps import RunStep
from ..agent.stream_events import CallEndEvent, LoadEvent, RunEndEvent, StepEndEvent, StreamEvent
from ..errors import ConfigError
from ..tokens import TokenCounter, default_counter
from .output import indent_lines, print_json, print_line, print_table, print_text
from .progress import progress

# The folder is called `cms`; under that name it could hide an installed package.
_PACKAGE = "toolscout_cms"
_MAX_CHARACTERS = 110


def play_conversations(*, is_json: bool) -> None:
    """Play them and print each step; then count tools and rules in every request."""
    with TemporaryDirectory() as folder, ExitStack() as loading:
        step = loading.enter_context(progress("Loading the example site"))
        demo = load_example_site("demo")
        counter = default_counter()
        on_event = _ignore_event if is_json else _ConversationPrinter(loading.close).show
        step("Playing the conversations", 0, 0)
        costs = asyncio.run(demo.play(Path(folder), by=counter, on_event=on_event))
    if is_json:
        print_json(
            {"counter": counter.name, "conversations": [_cost_row(cost, demo) for cost in costs]}
        )
    else:
        _print_costs(costs, demo, counter)


def load_example_site(module: str = "cms") -> ModuleType:
    """Import a module of the example site, from the installed package or a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "examples" / "cms", package.parents[1] / "examples" / "cms"):
        if (folder / "demo.py").is_file():
            _import_folder(folder)
            return import_module(f"{_PACKAGE}.{module}")
    raise ConfigError(
        "The example site is not installed.", hint="Run this in a checkout of the project."
    )


def _import_folder(folder: Path) -> None:
    """Import a folder as a package with a fixed name, wherever it is."""
    if _PACKAGE in sys.modules:
        return
    spec = util.spec_from_file_location(
        _PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules[_PACKAGE] = module = util.module_from_spec(spec)
    spec.loader.exec_module(module)


def _ignore_event(_conversation: Any, _event: StreamEvent | None) -> None:
    """Print nothing: JSON output has only the figures."""


class _ConversationPrinter:
    """Prints each step: what the model saw, then what it did."""

    def __init__(self, end_loading: Callable[[], None]) -> None:
        self._end_loading = end_loading
        # Calls end before their step does, but are printed below it.
        self._lines: list[tuple[str, str]] = []

    def show(self, conversation: Any, event: StreamEvent | None) -> None:
        self._end_loading()
        match event:
            case None:
                print_line("")
                print_line(f"{conversation.kind}: {conversation.title}", style="bold")
                print_text(f"user       {indent_lines(conversation.message, 11)}")
            case CallEndEvent(outcome=outcome):
                label = "search" if outcome.is_discovery else "call"
                self._lines.append((f"{label:<8} {outcome.call.name} {outcome.call.arguments}", ""))
                if not outcome.is_discovery:
                    self._lines.append((f"{'result':<8} {outcome.result.text}", "dim"))
            case LoadEvent(names=names):
                self._lines.append((f"{'loaded':<8} {', '.join(names)}", "green"))
            case StepEndEvent(step=step):
                self._print_step(step)
            case RunEndEvent(run=run):
                print_text(f"assistant  {indent_lines(run.text, 11)}")
            case _:
                pass

    def _print_step(self, step: RunStep) -> None:
        in_view = f"{len(step.active)} in view: {', '.join(step.active)}"
        print_line(_shorten(f"step {step.number + 1:<5} {in_view}"), style="cyan")
        for line, style in self._lines:
            print_line(_shorten(f"  {line}"), style=style)
        self._lines.clear()


def _print_costs(costs: Sequence[Any], demo: ModuleType, counter: TokenCounter) -> None:
    rows = [_table_cells(cost, demo) for cost in costs]
    print_line("")
    print_table(
        (
            "",
            "requests",
            "searches",
            "first",
            "last",
            "everything",
            "saved",
            "over all",
            "expected",
        ),
        rows,
        title=f"Tokens of tools, instructions and rules in a request ({counter.name})",
    )
    print_line(
        "saved: of the last request; over all: of all requests, where everything-loaded is not "
        "charged for searching; expected: the estimate that this profile was designed for."
    )
    print_line("")
    print_table(
        ("", *(cost.kind for cost in costs), "everything"),
        _line_rows(costs),
        title="The last request, line by line",
    )


def _line_rows(costs: Sequence[Any]) -> list[tuple[str, ...]]:
    """A row for each line of a request: its name, and its tokens in every conversation."""
    columns = [*(asdict(cost.requests[-1]) for cost in costs), asdict(costs[0].baseline)]
    return [
        (name.replace("_", " "), *(str(column[name]) for column in columns)) for name in columns[0]
    ]


def _table_cells(cost: Any, demo: ModuleType) -> tuple[str, ...]:
    row = _cost_row(cost, demo)
    expected = row["expected"]
    return (
        row["kind"],
        *(str(row[name]) for name in ("requests", "searches", "first", "last", "everything")),
        f"{row['saved']:.1%}",
        f"{row['saved_over_all']:.1%}",
        f"{expected:.0%}" if expected else "–",
    )


def _cost_row(cost: Any, demo: ModuleType) -> dict[str, Any]:
    totals = [request.total for request in cost.requests]
    return {
        "kind": cost.kind,
        "requests": len(totals),
        "searches": cost.searches,
        "first": totals[0],
        "last": totals[-1],
        "each": totals,
        "lines": asdict(cost.requests[-1]),
        "everything": cost.everything,
        "everything_lines": asdict(cost.baseline),
        "saved": round(cost.last, 4),
        "saved_over_all": round(cost.overall, 4),
        "expected": demo.EXPECTED.get(cost.kind),
    }


def _shorten(text: str) -> str:
    line = " ".join(text.split("\n"))
    return line if len(line) <= _MAX_CHARACTERS else f"{line[: _MAX_CHARACTERS - 1]}…"
