"""The plots of a report: recall by set, latency and tokens by the size of a catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .peers.contestants import DEFAULT, LEXICAL
from .plots import OURS, OURS_SOFT, THEIRS, Bar, Line, bars, lines

Rows = Sequence[Mapping[str, Any]]
# As many as can be read at the width of a README; nothing was chosen by looking at them.
_README_SETS = ("azure_mcp", "bfcl", "bfcl_ar", "seal_tools")


def drawn(report: Mapping[str, Any]) -> dict[str, str]:
    """Every plot that a report has figures for, by name."""
    found: dict[str, str] = {}
    if rows := report.get("retrieval"):
        found["recall"] = _recall(rows)
        found["finding"] = _recall([row for row in rows if row["set"] in _README_SETS])
    if rows := report.get("speed", {}).get("rows"):
        found["latency"] = _latency(rows)
    if curve := report.get("tokens", {}).get("curve"):
        found["tokens"] = _tokens(curve)
    return found


def _colour(label: str) -> str:
    return {DEFAULT.label: OURS, LEXICAL.label: OURS_SOFT}.get(label, THEIRS)


def _recall(rows: Rows) -> str:
    labels = list(dict.fromkeys(row["label"] for row in rows))
    ours = (DEFAULT.label, LEXICAL.label)
    labels.sort(key=lambda label: ours.index(label) if label in ours else len(ours))
    panels: list[tuple[str, list[Bar]]] = []
    for name in dict.fromkeys(row["set"] for row in rows):
        by_label = {row["label"]: row for row in rows if row["set"] == name}
        panels.append((name, [_bar(label, by_label.get(label, {})) for label in labels]))
    return bars("The right tool among the first five (recall@5)", panels)


def _bar(label: str, row: Mapping[str, Any]) -> Bar:
    if "figures" not in row:
        return Bar(label, None)
    span = row["figures"]["recall@5"]
    return Bar(label, span["mean"], span["low"], span["high"], _colour(label))


def _latency(rows: Rows) -> str:
    found: list[Line] = []
    for label in dict.fromkeys(row["label"] for row in rows):
        mine = [row for row in rows if row["label"] == label and "p50_cpu_ms" in row]
        points = [(row["size"], max(row["p50_cpu_ms"], 1e-3)) for row in mine]
        found.append(Line(label, points, _colour(label), is_strong=label == DEFAULT.label))
    return lines(
        "Time of a search, by size of the catalog",
        found,
        across="tools in the catalog",
        up="milliseconds of CPU time, median, one thread",
    )


def _tokens(curve: Rows) -> str:
    name = next(iter(curve[0]["profiles"]))
    shown = (("after five searches", "after_5", OURS_SOFT), ("at the start", "start", OURS))
    found = [Line("every tool loaded", [(r["tools"], r["everything"]) for r in curve])]
    for label, key, colour in shown:
        points = [(row["tools"], row["profiles"][name][key]) for row in curve]
        found.append(Line(f"Toolscout, {label}", points, colour, is_strong=key == "start"))
    return lines(
        "Tokens of a request, by size of the catalog",
        found,
        across="tools in the catalog",
        up="tokens of tools, instructions, searches and replies",
    )
