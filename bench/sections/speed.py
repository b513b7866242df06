"""How fast and how large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..peers.contestants import LEXICAL
from .markdown import Report, Row, Rows, named, number, table


def speed(report: Report, plot: str) -> str:
    """Times, memory and ratios at every size."""
    found = report.get("speed")
    if not found:
        return "## Speed and memory\n\nNot measured in this run."
    parts = ["## Speed and memory", plot]
    asked = found["asked"]
    parts.append(
        "Each engine uses one thread and returns ten hits. Catalogs are recombined from real"
        " tools, and queries are real and of all lengths; engines with vectors get queries of one"
        f" clause. Up to {asked['others']} other queries, as many as a few seconds allow, run"
        f" first; *at first* is the median of the first {asked['at_first']} queries of a process."
        f" The ratio is the median of CPU time compared with *{LEXICAL.label}* (below 1 is"
        " faster). *Index* is the time that a first search waits after the tools are loaded, with"
        " vectors from the cache; *index MB* is the memory that it adds to the tools. *Added* and"
        " *removed* are the times to add or remove one tool, including the next search."
    )
    rows: Rows = found["rows"]
    for size in dict.fromkeys(row["size"] for row in rows):
        mine = [row for row in rows if row["size"] == size]
        base = next((r.get("p50_cpu_ms") for r in mine if r["label"] == LEXICAL.label), None)
        columns = ("", "p50 ms", "p95 ms", "p50 CPU ms", "ratio", "at first ms", "index s")
        columns += ("index MB", "process MB", "added ms", "removed ms", "queries")
        lines = [_timed(row, base) for row in mine]
        parts.append(f"### {size:,} tools\n\n{table(columns, lines)}")
    parts += [_kinds(found["rows"]), _beside(found)]
    return "\n\n".join(part for part in parts if part)


def _timed(row: Row, base: float | None) -> Sequence[str]:
    if "reason" in row:
        return (row["label"], f"failed: {row['reason']}", *[""] * 10)
    return (
        named(row["label"]),
        number(row["p50_ms"]),
        number(row["p95_ms"]),
        number(row["p50_cpu_ms"]),
        number(row["p50_cpu_ms"] / base) if base else "–",
        number(row["first_p50_ms"]) if "first_p50_ms" in row else "–",
        number(row["index_s"]),
        number(max(0.0, row["index_mb"])),
        number(row["rss_mb"]),
        number(row["add_searched_ms"]) if "add_searched_ms" in row else "not offered",
        number(row["remove_searched_ms"]) if "remove_searched_ms" in row else "not offered",
        str(row["queries"]),
    )


def _kinds(rows: Rows) -> str:
    """Short and long requests apart, for those that were asked both."""
    lines: list[Sequence[str]] = []
    for row in rows:
        other = next((k for k in ("one_clause", "any_length") if f"{k}_p50_ms" in row), "")
        if other:
            plain = (number(row["p50_ms"]), number(row["p50_cpu_ms"]))
            apart = (number(row[f"{other}_p50_ms"]), number(row[f"{other}_p50_cpu_ms"]))
            cells = (*plain, *apart) if other == "one_clause" else (*apart, *plain)
            lines.append((f"{row['label']}, {row['size']:,} tools", *cells))
    columns = ("median", "any length, ms", "CPU ms", "one clause, ms", "CPU ms")
    return f"### By kind of query\n\n{table(columns, lines)}" if lines else ""


def _beside(found: Mapping[str, Any]) -> str:
    """What only Toolscout is asked: changes alone, the other kind of query, allow-lists."""
    lines: list[Sequence[str]] = []
    for row in found["rows"]:
        if "allowed_p50_cpu_ms" not in row:
            continue
        lines.append(
            (
                f"{row['label']}, {row['size']:,} tools",
                number(row["add_ms"]),
                number(row["remove_ms"]),
                number(row["unrestricted_p50_cpu_ms"]),
                number(row["allowed_p50_cpu_ms"]),
                number(row["allowed_first_ms"]),
            )
        )
    columns = ("Toolscout alone", "add ms", "remove ms")
    columns += ("all, CPU ms", "a tenth allowed, CPU ms", "first with a new list, ms")
    encoding = found["encoding"]
    return (
        f"{table(columns, lines)}\n\n"
        f"If it is not cached, the vector of a tool takes {number(encoding['ms_per_tool'])} ms to"
        " compute with the bundled encoder. This runs in the background; until then results are"
        " keyword-only."
    )
