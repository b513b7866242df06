"""What the gateway adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .markdown import Report, table


def gateway(report: Report) -> str:
    """What the gateway's own benchmarks said."""
    found = report.get("gateway")
    if not found:
        return "## The gateway\n\nNot measured in this run."
    parts = ["## The gateway"]
    for name, figures in found.items():
        lines = list(_flat(figures))
        parts.append(f"### {name.replace('_', ' ')}\n\n{table(('', 'measured'), lines)}")
    return "\n\n".join(parts)


def _flat(figures: Mapping[str, Any], name: str = "") -> Iterable[tuple[str, str]]:
    """Figures within figures as rows of a table."""
    for key, value in figures.items():
        label = f"{name} {key}".strip().replace("_", " ")
        if isinstance(value, dict) and value:
            yield from _flat(figures[key], label)
        else:
            yield label, _said(value)


def _said(value: Any) -> str:
    if isinstance(value, int | float):
        return f"{value:,}"
    return str(value).strip("[]") if value else "none"
