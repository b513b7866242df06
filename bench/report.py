"""One report out of what a run measured: Markdown for readers, JSON for scripts, plots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import figures
from .sections.gateway import gateway
from .sections.head import head, method
from .sections.head import targets as targets_section
from .sections.learning import learning
from .sections.manipulation import manipulation
from .sections.retrieval import knowing, retrieval
from .sections.speed import speed
from .sections.summary import summary
from .sections.tokens import tokens
from .targets import judged

Report = Mapping[str, Any]


def write(report: Report, folder: Path) -> Path:
    """Write the report into a folder; `benchmarks.md` is where to begin."""
    place = folder / "figures"
    place.mkdir(parents=True, exist_ok=True)
    targets = judged(report)
    whole = {**report, "targets": [target.row() for target in targets]}
    text = json.dumps(rounded(whole), indent=1, ensure_ascii=False) + "\n"
    (place / "benchmarks.json").write_text(text, encoding="utf-8")
    plots = figures.drawn(report)
    for name, plot in plots.items():
        (place / f"{name}.svg").write_text(plot, encoding="utf-8")
    parts = (part for part in _parts(whole, plots) if part)
    path = folder / "benchmarks.md"
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def _parts(report: Report, plots: Iterable[str]) -> list[str]:
    shown = {name: f"![{name}](figures/{name}.svg)" for name in plots}
    return [
        head(report),
        summary(report),
        targets_section(report["targets"]),
        retrieval(report, shown.get("recall", "")),
        knowing(report),
        speed(report, shown.get("latency", "")),
        tokens(report, shown.get("tokens", "")),
        gateway(report),
        learning(report),
        manipulation(report),
        method(report),
    ]


def rounded(value: Any) -> Any:
    """The same with numbers that are no longer than they are good."""
    match value:
        case float():
            return float(f"{value:.5g}")
        case Mapping():
            return {str(k): rounded(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # JSON of any shape
        case str():
            return value
        case Sequence():
            return [rounded(v) for v in value]  # pyright: ignore[reportUnknownVariableType] # JSON of any shape
        case _:
            return value
