"""Tables and numbers for readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..peers.contestants import DEFAULT

Report = Mapping[str, Any]
Row = Mapping[str, Any]
Rows = Sequence[Row]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows as Markdown; the first column is text, the others stand to the right."""
    marks = ["---", *("---:" for _ in head[1:])]
    lines = [head, marks, *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def number(value: float | None, digits: int = 3) -> str:
    """A figure with so many digits that count; a dash where there is none."""
    if value is None:
        return "–"
    if value == 0 or abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{value:.{digits + 2}f}".rstrip("0") if "e" in text else text


def named(label: str) -> str:
    """A contestant's name; the default's stands out."""
    return f"**{label}**" if label == DEFAULT.label else label
