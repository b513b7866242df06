"""`toolscout demo`: the scripted conversations of the example site, offline, and their costs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from importlib import import_module, util
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import click

from ..agent.steps import RunStep
from ..agent.stream_events import CallEndEvent, LoadEvent, RunEndEvent, StepEndEvent, StreamEvent
from ..errors import ConfigError
from ..tokens import TokenCounter, default_counter
from .output import json_option, print_json, print_line, print_table

_PACKAGE = "toolscout_cms"
_MAX_CHARACTERS = 110


@click.command("demo")
@json_option
def command(*, is_json: bool) -> None:
    """Play three conversations with a small content system of 45 tools.

    One is answered at once, one needs a search, one needs several. Each step shows what the model
    saw and what it did; the table at the end counts what tools and rules cost in every request,
    beside a request that has all 45 definitions and all rules.
    """
    demo = load_example_site("demo")
    by = default_counter()
    with TemporaryDirectory() as folder:
        watch = _ignore_event if is_json else _ConversationPrinter().show
        accounts = asyncio.run(demo.play(Path(folder), by=by, watch=watch))
    if is_json:
        print_json({"counter": by.name, "conversations": [_cost_row(a, demo) for a in accounts]})
    else:
        _print_costs(accounts, demo, by)


def load_example_site(module: str = "cms") -> ModuleType:
    """A module of the example site: beside the installed package, or in a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "examples" / "cms", package.parents[1] / "examples" / "cms"):
        if (folder / "demo.py").is_file():
            _import_folder(folder)
            return import_module(f"{_PACKAGE}.{module}")
    raise ConfigError(
        "The example site is not installed.", hint="Run this in a checkout of the project."
    )


def _import_folder(folder: Path) -> None:
    """Import a folder as a package under a name of ours, wherever it lies."""
    if _PACKAGE in sys.modules:
        return
    spec = util.spec_from_file_location(
        _PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules[_PACKAGE] = module = util.module_from_spec(spec)
    spec.loader.exec_module(module)


def _ignore_event(_conversation: Any, _happening: StreamEvent | None) -> None:
    """Only the figures are wanted."""


class _ConversationPrinter:
    """Tells each step: what the model saw, then what it did."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, str]] = []

    def show(self, conversation: Any, happening: StreamEvent | None) -> None:
        match happening:
            case None:
                print_line(f"\n{conversation.kind}: {conversation.title}", style="bold")
                print_line(f"user       {conversation.message}")
            case CallEndEvent(ran):
                label = "search" if ran.is_discovery else "call"
                self._lines.append((f"{label:<8} {ran.call.name} {ran.call.arguments}", ""))
                if not ran.is_discovery:
                    self._lines.append((f"{'result':<8} {ran.result.text}", "dim"))
            case LoadEvent(names):
                self._lines.append((f"{'loaded':<8} {', '.join(names)}", "green"))
            case StepEndEvent(step):
                self._print_step(step)
            case RunEndEvent(run):
                print_line(f"assistant  {run.text}")
            case _:
                pass

    def _print_step(self, step: RunStep) -> None:
        seen = f"{len(step.active)} in view: {', '.join(step.active)}"
        print_line(_shorten(f"step {step.number + 1:<5} {seen}"), style="cyan")
        for line, style in self._lines:
            print_line(_shorten(f"  {line}"), style=style)
        self._lines.clear()


def _print_costs(accounts: Sequence[Any], demo: ModuleType, by: TokenCounter) -> None:
    rows = [_table_cells(account, demo) for account in accounts]
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
            "design E",
        ),
        rows,
        title=f"Tokens of tools, instructions and rules in a request ({by.name})",
    )
    print_line(
        "saved: of the last request; over all: of all requests, where everything-loaded is not "
        "charged for searching; design E: what its plan expects."
    )


def _table_cells(account: Any, demo: ModuleType) -> tuple[str, ...]:
    row = _cost_row(account, demo)
    expected = row["expected"]
    return (
        row["kind"],
        *(str(row[name]) for name in ("requests", "searches", "first", "last", "everything")),
        f"{row['saved']:.1%}",
        f"{row['saved_over_all']:.1%}",
        f"{expected:.0%}" if expected else "–",
    )


def _cost_row(account: Any, demo: ModuleType) -> dict[str, Any]:
    totals = [weight.total for weight in account.weights]
    return {
        "kind": account.kind,
        "requests": len(totals),
        "searches": account.searches,
        "first": totals[0],
        "last": totals[-1],
        "each": totals,
        "everything": account.everything,
        "saved": round(account.last, 4),
        "saved_over_all": round(account.overall, 4),
        "expected": demo.EXPECTED.get(account.kind),
    }


def _shorten(text: str) -> str:
    line = " ".join(text.split("\n"))
    return line if len(line) <= _MAX_CHARACTERS else f"{line[: _MAX_CHARACTERS - 1]}…"
