"""How often hostile tools push the right one away."""

from __future__ import annotations

from .learning import hostile_calls
from .markdown import Report, Row, Rows, named, table

_SAID = (
    "A hostile server joins a real catalog, with five tools against each of some real tools."
    " *Stuffed* repeats the target's words many times under unrelated names. *Boastful* does the"
    " same after it claims to be right for everything. *Shadow* copies the target's description"
    " and parameters under similar names. *Magnet* is ten tools with the most common words of all"
    " queries. Only queries count whose right tool was among the first five before. The table has"
    " the share where the right tool is no longer among them and, in brackets, the share where a"
    " hostile tool ranks above it. The words of a copy are the same as those of the original:"
    " pins and the approval of new tools protect against that."
)


def manipulation(report: Report) -> str:
    """How often hostile tools push the right one away."""
    found: Row = report.get("manipulation") or {}
    if not found:
        return "## Manipulation\n\nNot measured in this run."
    rows: Rows = found["tools"]
    parts = ["## Manipulation", _SAID]
    for name in dict.fromkeys(row["set"] for row in rows):
        mine = [row for row in rows if row["set"] == name]
        attacks = list(dict.fromkeys(row["attack"] for row in mine))
        by = {(row["label"], row["attack"]): row for row in mine}
        lines = [
            (named(label), *(_pushed(by[label, attack]) for attack in attacks))
            for label in dict.fromkeys(row["label"] for row in mine)
        ]
        count = max((row.get("queries", 0) for row in mine), default=0)
        head = ("", *attacks)
        parts.append(f"### {name}\n\nUp to {count} queries.\n\n{table(head, lines)}")
    return "\n\n".join((*parts, hostile_calls(found["calls"])))


def _pushed(row: Row) -> str:
    if "reason" in row:
        return f"failed: {row['reason']}"
    out, over = row["displaced"]["mean"], row["overtaken"]["mean"]
    return f"{out * 100:.1f} % ({over * 100:.1f} %)"
