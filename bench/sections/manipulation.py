"""How often hostile tools push the right one away."""

from __future__ import annotations

from .markdown import Report, Row, Rows, named, table

_SAID = (
    "A hostile server joins a real catalog and brings five tools against each of some real ones:"
    " *stuffed* repeats the target's words over and over under unrelated names; *boastful* does so"
    " after claiming to be right for everything; *shadow* copies the target's description and"
    " parameters under names beside its own; *magnet* is ten tools of the commonest words of all"
    " queries. Counted are the queries whose right tool came among the first five before: the"
    " share where it is pushed out of them, and in brackets the share where a hostile tool stands"
    " before it. A copy cannot be told from the original by its words: pins and the approval of"
    " new tools are the answer to that."
)


def manipulation(report: Report) -> str:
    """How often hostile tools push the right one away."""
    rows: Rows = report.get("manipulation") or ()
    if not rows:
        return "## Manipulation\n\nNot measured in this run."
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
    return "\n\n".join(parts)


def _pushed(row: Row) -> str:
    if "reason" in row:
        return f"failed: {row['reason']}"
    out, over = row["displaced"]["mean"], row["overtaken"]["mean"]
    return f"{out * 100:.1f} % ({over * 100:.1f} %)"
