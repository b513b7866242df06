"""The frame of a report: when and on what, what was promised, how it is measured."""

from __future__ import annotations

from collections.abc import Sequence

from .markdown import Report, Rows, number, table


def head(report: Report) -> str:
    """When, on what, and by which command."""
    on = report["machine"]
    kind = "quick run on a part of the queries" if report["is_quick"] else "full run"
    command = "make bench-quick" if report["is_quick"] else "make bench"
    return (
        "# Benchmarks\n\n"
        f"Written by `{command}` on {on['date']}, a {kind}: {on['cores']} cores"
        f" ({on['processor']}), {on['memory_gb']} GB, {on['system']}, Python {on['python']},"
        f" NumPy {on['numpy']}, Toolscout {on['toolscout']}."
        f" The run took {report['took_s'] / 60:.0f} minutes; the machine's load just before it was"
        f" {on['load_before']:g}. That one command measures everything on this page."
        " [benchmarks.json](figures/benchmarks.json) has the same figures for scripts."
    )


def targets(rows: Rows) -> str:
    """Promise by promise: what was wanted, what was measured, and whether that is enough."""
    lines: list[Sequence[str]] = []
    for row in rows:
        sign, unit = "≥" if row["at_least"] else "≤", row["unit"]
        measured = "–" if row["measured"] is None else f"{number(row['measured'])} {unit}"
        work = "" if row["cpu"] is None else f"{number(row['cpu'])} {unit}"
        wanted = f"{sign} {row['wanted']:g} {unit}"
        lines.append((row["promise"], wanted, measured, work, row["verdict"]))
    missing = sum(row["measured"] is None for row in rows)
    reached = sum(row["verdict"] == "reached" for row in rows)
    return (
        f"## Targets\n\nReached: {reached}, not reached: {len(rows) - reached - missing}, not"
        f" measured in this run: {missing}. Times are judged by wall-clock time. CPU time is"
        " shown too, because other work on a machine affects it less.\n\n"
        + table(("target", "wanted", "measured", "by CPU time", ""), lines)
    )


def method(report: Report) -> str:
    """How all this was measured, and what to keep in mind."""
    peers = ", ".join(sorted(set(report["machine"]["peers"].values())))
    return (
        "## How it is measured\n\n"
        "- Each search engine runs through its public classes (`bench/peers/adapters`), in its own"
        " process and on one thread. The same holds for Toolscout wherever time or memory is"
        " measured. Peers have their own virtual environments with pinned versions:"
        f" {peers}.\n"
        "- For peers only the search step is timed, over tools that they already have. The time"
        " that FastMCP and pydantic-ai need to list tools for every request is not counted.\n"
        "- langgraph-bigtool embeds *name: description* with the encoder that Toolscout bundles."
        " *bm25s* is its quick start over name and description; *prepared* also splits"
        " identifiers and reads parameters.\n"
        "- Catalogs of 1,000 to 100,000 tools are recombined from real ones with a fixed seed"
        " (`bench/catalogs.py`). Encoding all of them would take too long, so the part on speed"
        " uses mixtures of 2,048 real vectors as vectors of tools. Queries are always encoded."
        " The part on retrieval uses only real vectors.\n"
        "- The sets are public; `TOOLSCOUT_DATA` names their folder. *agentdojo* and"
        " *bfcl_turns* are made from packages of other projects (`bench/packaged.py`): requests of"
        " agents' users, whose tasks mostly need several tools, some of them not mentioned. The"
        " requests for three real MCP catalogs were written for this benchmark"
        " (`bench/written/README.md` describes how)."
        " Some of the ranking was designed by looking at misses in those five sets"
        " ([details](decisions/ranking.md)), so they are not unseen.\n"
        "- If a peer fails, its row has the reason."
    )
