"""Everybody in one table: recall@5 on every set, and the time of a search at two sizes."""

from __future__ import annotations

from .markdown import Report, Rows, named, number, table

_SETS = (
    "azure_mcp",
    "bfcl",
    "bfcl_ar",
    "seal_tools",
    "docker_catalog",
    "bfcl_turns",
    "agentdojo",
)
_SIZES = (10_000, 100_000)


def summary(report: Report) -> str:
    """A row for everybody, the best on average first."""
    found: Rows = [row for row in report.get("retrieval") or () if "figures" in row]
    sets = [name for name in _SETS if any(row["set"] == name for row in found)]
    if not sets:
        return ""
    times: Rows = report.get("speed", {}).get("rows") or ()
    recalls = {(row["label"], row["set"]): row["figures"]["recall@5"]["mean"] for row in found}
    totals = {label: sum(recalls.get((label, name), 0.0) for name in sets) for label, _ in recalls}
    labels = sorted(totals, key=lambda label: -totals[label])
    medians = {(row["label"], row["size"]): row.get("p50_ms") for row in times}
    columns = ["", *(f"{name}, recall@5" for name in sets), *(f"{n:,} tools, ms" for n in _SIZES)]
    rows = [
        [
            named(label),
            *(_recall(recalls.get((label, name))) for name in sets),
            *(number(medians.get((label, size))) for size in _SIZES),
        ]
        for label in labels
    ]
    note = (
        "Times are medians of single searches on one thread: queries of any length for keyword"
        " search, of one clause with vectors. docker_catalog, bfcl_turns and agentdojo were looked"
        " at while part of the ranking was made"
        " ([which](decisions/ranking.md#figures)), so they are not unseen."
    )
    return f"## At a glance\n\n{table(columns, rows)}\n\n{note}"


def _recall(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
