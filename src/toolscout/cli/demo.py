"""`toolscout demo`: asks the example a few questions and compares the tokens."""

from __future__ import annotations

from typing import Any

import click

from ..catalog.catalog import Catalog
from ..config import Config
from ..disclosure.profiles import get_profile
from ..evals.costs import CostEstimator
from ..examples import QUESTIONS
from ..program import command_line
from ..tokens import get_counter
from .catalog_options import load_catalog, open_engine
from .conversations import play_conversations
from .output import json_option, print_json, print_line, print_table
from .progress import progress

_PROFILE = "default"


@click.command("demo")
@click.option(
    "--profile",
    type=click.Choice([_PROFILE, "cms"]),
    default=_PROFILE,
    show_default=True,
    help="cms plays three conversations with the example site instead.",
)
@json_option
def command(*, profile: str, is_json: bool) -> None:
    """Ask the example catalog a few questions, offline, and count the tokens.

    Each row is one question of a conversation: the tool that was found, and the tokens that the
    next request has for tools, instructions, searches and replies, beside a request with every
    tool loaded.
    """
    if profile != _PROFILE:
        play_conversations(is_json=is_json)
        return
    report = _ask_questions(load_catalog(()).catalog)
    print_json(report) if is_json else _print_report(report)


def _ask_questions(catalog: Catalog) -> dict[str, Any]:
    config = Config.read()
    counter = get_counter(config.counter)
    profile = get_profile(_PROFILE)
    with (
        open_engine(catalog, embedder=config.embedder, no_cache=False) as engine,
        progress("Asking the questions"),
    ):
        estimator = CostEstimator(engine=engine, counter=counter)
        everything = estimator.full_catalog_tokens()
        cost = estimator.cost(profile)
        lookups = estimator.ask(profile, [question for question, _ in QUESTIONS])
    return {
        "counter": counter.name,
        "tools": len(catalog),
        "everything": everything,
        "start": cost.start,
        "saved": cost.savings(everything),
        "questions": [
            {
                "question": lookup.question,
                "found": lookup.names[0] if lookup.names else None,
                "tokens": lookup.tokens,
                "saved": round(1 - lookup.tokens / everything, 4),
            }
            for lookup in lookups
        ],
    }


def _print_report(report: dict[str, Any]) -> None:
    everything = f"{report['everything']:,}"
    start = {"question": "(before the first question)", "found": "", "tokens": report["start"]}
    rows = [
        (
            row["question"],
            row["found"] if row["found"] is not None else "nothing",
            f"{row['tokens']:,}",
            everything,
            f"{row['saved']:.1%}",
        )
        for row in (start | {"saved": report["saved"]}, *report["questions"])
    ]
    print_line(f"{report['tools']} tools of an example office. Tokens that a model reads:")
    print_table(
        ("question", "tool found", "with Toolscout", "everything loaded", "saved"),
        rows,
        has_header=True,
    )
    print_line(
        f"The first request saves {report['saved']:.1%} ({report['counter']}). Found tools stay "
        "in the conversation, so it grows by what was asked for."
    )
    print_line(f"Try your own question: {command_line('search')}")
