"""What was learned, tool by tool, and what shadow mode has measured."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from .observation import Observation
from .training import LearnedModel

SHADOW_DEPTHS = (1, 5)
"""For how many of the best tools shadow mode counts recall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedTool:
    """What was learned for one tool.

    `lift` is what a request like those that it was used for adds to its score at most.
    """

    name: str
    observations: int
    principals: int
    last_used: float
    lift: float


@dataclass(frozen=True, slots=True)
class ShadowFigures:
    """Of how many calls the tool was among the best, by depth, without and with past use."""

    calls: int
    without: Mapping[int, float]
    learned: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSummary:
    """Everything that was learned, the most used tools first."""

    observations: int
    principals: int
    tools: tuple[LearnedTool, ...]
    shadow: ShadowFigures
    problems: tuple[str, ...]


def summarise(
    rows: Iterable[Observation],
    model: LearnedModel,
    counts: Mapping[str, int],
    *,
    problems: Iterable[str] = (),
) -> LearningSummary:
    """A summary of observations, of the model that was trained with them, and of the counts."""
    rows = tuple(rows)
    return LearningSummary(
        observations=len(rows),
        principals=len({row.principal for row in rows}),
        tools=_summarise_tools(rows, model),
        shadow=_read_shadow(counts),
        problems=tuple(problems),
    )


def _summarise_tools(rows: Iterable[Observation], model: LearnedModel) -> tuple[LearnedTool, ...]:
    # By name: a person knows no keys. A tool whose definition changed has several.
    lifts = dict(zip(model.keys, np.linalg.norm(model.rows, axis=1).tolist(), strict=True))
    observations = Counter[str]()
    principals, last_used = defaultdict[str, set[str]](set), defaultdict[str, float](float)
    best = defaultdict[str, float](float)
    for row in rows:
        for key, name in row.called.items():
            observations[name] += 1
            principals[name].add(row.principal)
            last_used[name] = max(last_used[name], row.time)
            best[name] = max(best[name], lifts.get(key, 0.0))
    tools = (
        LearnedTool(
            name=name,
            observations=count,
            principals=len(principals[name]),
            last_used=last_used[name],
            lift=round(best[name], 2),
        )
        for name, count in observations.items()
    )
    return tuple(sorted(tools, key=lambda tool: (-tool.observations, tool.name)))


def _read_shadow(counts: Mapping[str, int]) -> ShadowFigures:
    calls = counts.get("shadow_calls", 0)
    without, learned = (
        {d: round(counts.get(f"{order}@{d}", 0) / max(1, calls), 4) for d in SHADOW_DEPTHS}
        for order in ("base", "learned")
    )
    return ShadowFigures(calls, without, learned)
