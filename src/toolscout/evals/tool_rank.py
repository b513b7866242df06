"""Why a search does not find a certain tool: its rank in all, and by each ranker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..embedders.arrays import Floats
from ..search.engine import Engine
from ..search.pipeline import fuse_rankings, prepare_request, rank_all
from ..search.query import parse
from ..search.ranking import Allow, Ranking, RankingRequest, apply_filters
from ..search.recipe import order_by_score, score_parts

RankProblem = Literal["", "unknown", "filtered", "without words"]
"""Why a tool has no rank: it cannot be seen, a filter of the query excludes it, or the query has
nothing to rank by."""


RANK_PROBLEMS: Mapping[RankProblem, str] = {
    "unknown": "This caller cannot see a tool of this name.",
    "filtered": "A filter in the query excludes it.",
    "without words": "The query selects tools by name or pattern, so nothing is ranked.",
}
"""Each problem in words."""


@dataclass(frozen=True, slots=True)
class ArmRank:
    """Where one ranker puts a tool; `rank` is None if it does not find it.

    `score` is what it adds to the sum, and `best` the most that it adds to any tool.
    """

    arm: str
    rank: int | None
    score: float
    best: float
    field: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolRank:
    """Where a tool stands among `tools` others, by the sum of all rankers and by each."""

    name: str
    rank: int | None = None
    tools: int = 0
    score: float = 0.0
    arms: tuple[ArmRank, ...] = ()
    problem: RankProblem = ""
    notes: tuple[str, ...] = ()


def rank_tool(engine: Engine, text: str, name: str, *, allow: Allow | None = None) -> ToolRank:
    """Score every tool that a query admits, and look where one of them stands."""
    engine.sync()
    snapshot, pipeline, query = engine.snapshot, engine.pipeline(), parse(text)
    index, mask = snapshot.index, snapshot.mask(allow)
    slot = index.slot(name)
    if slot is None or not mask[slot]:
        return ToolRank(name, problem="unknown")
    allowed = apply_filters(index, query, mask)
    if not allowed[slot]:
        return ToolRank(name, problem="filtered")
    if not query.words or query.select or query.pattern is not None:
        return ToolRank(name, problem="without words")
    slots = np.flatnonzero(allowed).astype(np.int32)
    request, notes = prepare_request(pipeline, index, query, allowed, limit=len(slots))
    found, failures = rank_all(pipeline.rankers, request)
    if not found:
        return ToolRank(name, tools=len(slots), notes=(*notes, *failures))
    # With what was learned from use, if it has something to add.
    rankings, _ = fuse_rankings(pipeline, request, found)
    parts = score_parts(request, rankings, slots)
    place = int(np.searchsorted(slots, slot))
    return ToolRank(
        name,
        rank=1 + order_by_score(request, slots, parts.total).tolist().index(place),
        tools=len(slots),
        score=round(float(parts.total[place]), 4),
        arms=tuple(
            _arm_rank(request, ranking, scores, place, slot)
            for ranking, scores in zip(rankings, parts.by_ranking, strict=True)
        ),
        notes=(*notes, *failures),
    )


def _arm_rank(
    request: RankingRequest, ranking: Ranking, scores: Floats, place: int, slot: int
) -> ArmRank:
    # A ranker that gives no reason does not find the tool: its score is that of all others.
    reason = ranking.explain(slot) if request.allowed[slot] else None
    return ArmRank(
        arm=ranking.arm,
        rank=None if reason is None else _rank(scores, place),
        score=round(float(scores[place]), 4),
        best=round(float(scores.max()), 4),
        field=reason.field if reason else "",
        words=reason.words if reason else (),
    )


def _rank(scores: Floats, place: int) -> int:
    return 1 + int(np.count_nonzero(scores > scores[place]))
