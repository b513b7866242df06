"""What learning from use gains and costs, and what wrong and hostile calls do to it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from .markdown import Report, Row, Rows, table

MIN_REQUESTS = 1.5
"""How many requests for each labelled tool count as several."""

WRONG = "30 % wrong"
_FIGURES = ("recall@1", "recall@5", "ndcg@10")
_SAID = (
    "Half of the requests are observed, and tools among the first ten are called. Gains in points"
    " (recall@1 / recall@5 / nDCG@10) on the other half. The macro mean is over the sets with at"
    f" least {MIN_REQUESTS} requests for each labelled tool. *Never used*: half of the tools are"
    " called by nobody, and the figures are of their requests. *One principal*: all calls"
    " are made by one. *Next tools*: recall@5 of the other tools of a"
    " task once one was called, by the graph of tools used together."
)
_HOSTILE = (
    "[Learning from use](#learning-from-use) has its own attack: calls. *Wrong calls*: three of ten"
    " calls are of a random tool among those shown. *Attacker*: one principal makes 50 requests and"
    " calls one tool a hundred times for each; how often that tool is then the first, or among the"
    " first five, of requests that do not need it."
)


def learning(report: Report) -> str:
    """Gains by set, and the cost of a search."""
    found: dict[str, Any] = report.get("learning") or {}
    if not found:
        return "## Learning from use\n\nNot measured in this run."
    rows: Rows = found["gains"]
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    by = {(row["set"], row["kind"]): row for row in rows}
    lines = [
        (
            f"{name} ({by[name, kinds[0]]['per_tool']:.1f} a tool)",
            *(_gain(by[name, k]) for k in kinds),
        )
        for name in dict.fromkeys(row["set"] for row in rows)
    ]
    lines.append(("**macro**", *(_points(macro_gain(rows, kind)) for kind in kinds)))
    parts = ["## Learning from use", _SAID, table(("", *kinds), lines)]
    costs = [
        (f"{row['set']}, {row['used']:,} of {row['tools']:,} tools used", *_milliseconds(row))
        for row in found["cost"]
    ]
    if costs:
        parts.append(table(("CPU milliseconds", "a search", "added by past use"), costs))
    return "\n\n".join(parts)


def hostile_calls(found: dict[str, Any]) -> str:
    """What wrong calls and one attacker do to what is learned."""
    wrong: Rows = found["wrong"]
    lines = [(row["set"], _gain(row)) for row in wrong]
    lines.append(("**macro**", _points(macro_gain(wrong, WRONG))))
    attacks = [
        (row["set"], _shares(row["before"]), _shares(row["after"]), _points(row["others"]))
        for row in found["attacks"]
    ]
    parts = ["### Calls", _HOSTILE, table(("wrong calls", "gain that is left"), lines)]
    if attacks:
        head = ("attacker's tool: first / first five", "before", "after", "gain of the others")
        parts.append(table(head, attacks))
    return "\n\n".join(parts)


def macro_gain(rows: Sequence[Row], kind: str) -> dict[str, float]:
    """The mean gain of every figure over the sets with several requests a tool."""
    several = [
        row["gain"]
        for row in rows
        if row["kind"] == kind and row["gain"] and row["per_tool"] >= MIN_REQUESTS
    ]
    shown = [f for f in _FIGURES if several and f in several[0]]
    return {f: mean(gain[f]["mean"] for gain in several) for f in shown}


def _gain(row: Row) -> str:
    return _points({f: row["gain"][f]["mean"] for f in _FIGURES if f in row["gain"]})


def _points(figures: dict[str, float]) -> str:
    return " / ".join(f"{value:+.1f}" for value in figures.values()) or "–"


def _shares(row: Row) -> str:
    return f"{100 * row['top 1']:.1f} / {100 * row['top 5']:.1f} %"


def _milliseconds(row: Row) -> tuple[str, str]:
    return f"{row['search_ms']:.2f}", f"{row['added_ms']:+.2f}"
