"""`toolscout tokens`: counts what tools cost in the context, in full and by profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..config import Config
from ..disclosure.profile import Profile
from ..disclosure.profiles import EVERYTHING, get_profile, profile_names
from ..errors import ConfigError
from ..evals.cache_costs import Bill
from ..evals.conversation import read_conversation
from ..evals.costs import CostEstimator
from ..evals.replay import compare_surfaces
from ..search.engine import Engine
from ..tokens import get_counter
from .catalog_options import PATH, catalog_option, load_and_warn
from .output import json_option, print_json, print_line, print_table
from .progress import ProgressReporter, progress


@click.command(name="tokens")
@catalog_option
@click.option("--profile", "chosen", metavar="NAME", help="Only this profile.  [default: all]")
@click.option(
    "--conversation",
    type=PATH,
    metavar="FILE",
    help="A recorded conversation (JSON Lines): count what it costs on each surface.",
)
@click.option(
    "--model",
    default="plain",
    show_default=True,
    metavar="PROVIDER[:MODEL]",
    help="The provider or model, which sets prices and caching rules.",
)
@json_option
def command(
    *,
    paths: tuple[Path, ...],
    chosen: str | None,
    conversation: Path | None,
    model: str,
    is_json: bool,
) -> int:
    """Count the tokens of tools: all of them loaded, and under each profile.

    A profile is counted at the start of a conversation, after one search and after five, each with
    everything that the model then reads: tools, instructions, searches and replies. The saving is
    that of the first request; a profile that costs more than everything loaded is explained below
    the table. Searches here are keyword-only.
    """
    # Without an embedder: the counts need the size of the replies, not the best hits.
    catalog = load_and_warn(paths)
    with progress("Counting all tools") as step:
        engine = Engine(catalog)
        counter = get_counter(Config.read().counter)
        estimator = CostEstimator(engine=engine, counter=counter, target=model)
        everything = estimator.full_catalog_tokens()
        report: dict[str, Any] = {
            "counter": counter.name,
            "is_exact": counter.is_exact,
            "tools": len(engine.catalog),
            "everything": everything,
            "profiles": _count_profiles(estimator, _select_profiles(chosen), everything, step),
        }
    if conversation is not None:
        steps = read_conversation(_read_text(conversation))
        profile = get_profile(chosen) if chosen else get_profile(Config.read().profile)
        with progress("Replaying the conversation"):
            bills = compare_surfaces(
                steps, target=model, engine=engine, profile=profile, counter=counter
            )
        report["conversation"] = {surface: _bill_row(bill) for surface, bill in bills.items()}
    print_json(report) if is_json else _print_report(report)
    return 0


def _select_profiles(name: str | None) -> list[Profile]:
    # `everything` is the baseline that the others are compared with.
    names = [name] if name else [n for n in profile_names() if n != EVERYTHING.name]
    return [get_profile(n) for n in names]


def _count_profiles(
    estimator: CostEstimator, profiles: list[Profile], everything: int, step: ProgressReporter
) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for done, profile in enumerate(profiles):
        step(f"Counting profile {profile.name}", done, len(profiles))
        cost = estimator.cost(profile)
        rows[profile.name] = {
            "start": cost.start,
            "after_1": cost.after_1,
            "after_5": cost.after_5,
            "saved": cost.savings(everything),
        }
        if cost.start > everything:
            rows[profile.name]["note"] = _explain_cost(estimator, profile)
    return rows


def _explain_cost(estimator: CostEstimator, profile: Profile) -> str:
    """Why a profile costs more than all definitions."""
    catalog = estimator.engine.catalog
    if profile.hiding == "stub" and len(catalog) > profile.policy.threshold:
        return (
            "Every tool stays in the list, with its description and without its schema. The search"
            " and what is left of these tools cost more than their schemas."
        )
    if profile.hiding != "prompt":
        return "The catalog is too small for a search to pay off."
    prompt, described = estimator.prompt_tokens(profile)
    added = "Every tool stays in the list, and the prompt is added."
    if prompt >= described:
        return f"{added} It describes every tool again, so it saves nothing."
    return (
        f"{added} The saving is in the prompt: "
        f"{prompt:,} tokens instead of {described:,} with every tool described."
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The conversation {path} cannot be read: {error}.", hint="Give a JSON Lines file."
        ) from error


def _bill_row(bill: Bill) -> dict[str, Any]:
    return {
        "requests": bill.requests,
        "cached": bill.cached,
        "written": bill.written,
        "plain": bill.plain,
        "output": bill.output,
        "billed": round(bill.total, 1),
    }


def _print_report(report: dict[str, Any]) -> None:
    # The estimate has no tokeniser that could be named.
    counted = f"counted with {report['counter']}"
    method = counted if report["is_exact"] else "an estimate, not a count"
    print_line(f"{report['tools']} tools, {method}")
    rows = [("everything loaded", f"{report['everything']:,}", "", "", "")]
    rows += [
        (name, f"{r['start']:,}", f"{r['after_1']:,}", f"{r['after_5']:,}", f"{r['saved']:.1%}")
        for name, r in report["profiles"].items()
    ]
    print_table(("profile", "start", "after 1 search", "after 5", "saved"), rows)
    if len(report["profiles"]) > 1:
        print_line("solaris, mcpagent, cortex, everruns: published designs, see docs/profiles.md.")
    for name, row in report["profiles"].items():
        if "note" in row:
            print_line(f"{name} costs more than everything loaded. {row['note']}")
    if "conversation" in report:
        bills = report["conversation"].items()
        columns = ("surface", "billed", "cached", "written", "plain", "output")
        rows = [
            (name, f"{b['billed']:,.0f}", *(f"{b[k]:,}" for k in columns[2:])) for name, b in bills
        ]
        print_table(columns, rows, title="The conversation, billed in plain input tokens")
