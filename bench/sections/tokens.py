"""What tools cost in the context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .markdown import Report, number, table


def tokens(report: Report, plot: str) -> str:
    """Everything loaded against each profile, and what a lookup costs."""
    found = report.get("tokens")
    if not found:
        return "## Tokens\n\nNot measured in this run."
    parts = ["## Tokens", plot, f"Counted with {found['counter']}."]
    names = [f"{row['catalog']}, {row['tools']:,} tools" for row in found["catalogs"]]
    everything = ["every tool loaded", *(f"{row['everything']:,}" for row in found["catalogs"])]
    lines: list[Sequence[str]] = [everything]
    lines += [
        [name, *(_cost(row["profiles"][name]) for row in found["catalogs"])]
        for name in found["catalogs"][0]["profiles"]
    ]
    head = ["start → after one search → after five", *names]
    parts.append(table(head, lines))
    if lookup := found.get("lookup"):
        parts.append(_lookup(lookup))
    return "\n\n".join(part for part in parts if part)


def _cost(cost: Mapping[str, Any]) -> str:
    chain = " → ".join(f"{cost[k]:,}" for k in ("start", "after_1", "after_5"))
    return f"{chain} ({-cost['saved'] * 100:+.1f} %)"


def _lookup(found: Mapping[str, Any]) -> str:
    lines = [
        (
            row["shape"],
            f"{row['resolved'] * 100:.1f} %",
            f"{row['at_once'] * 100:.1f} %",
            number(row["tokens_per_resolved"], 4),
            number(row["median_reply"], 4),
        )
        for row in found["shapes"]
    ]
    columns = ("way to answer", "resolved", "at once", "tokens per resolved lookup", "median reply")
    count = found["shapes"][0]["lookups"] if found["shapes"] else 0
    return (
        f"### A single lookup\n\nTokens until a right tool is callable, over {count:,} queries"
        f" of {found['set']} (every tool loaded: {found['everything']:,} tokens): the call of the"
        " search, its reply, further searches if needed, and the tokens that loading adds to the"
        " next request. The tokens of unresolved lookups are added to those of resolved ones."
        f"\n\n{table(columns, lines)}"
    )
