"""The rank that a tool would have with other phrases, before they are saved."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from ..catalog.overlay import Overlay
from ..disclosure.doubt import judge_results
from ..search.engine import Engine
from .tool_rank import ToolRank, rank_tool


@dataclass(frozen=True, slots=True)
class QueryRank:
    """Where a tool stands for a query, and how sure the search is."""

    rank: ToolRank
    confidence: float


@dataclass(frozen=True, slots=True)
class RankChange:
    """Where a tool stands for a query now, and where it would stand."""

    query: str
    before: QueryRank
    after: QueryRank


def preview_ranks(
    engine: Engine, name: str, overlay: Overlay, queries: Sequence[str]
) -> tuple[RankChange, ...]:
    """Rank a tool with the phrases of an overlay; the engine itself does not change.

    What was learned from use counts in neither rank.
    """
    is_complete = engine.status.is_complete
    with closing(engine.copy()) as copy:
        before = [_rank(copy, name, query) for query in queries]
        copy.update(copy.catalog.with_changed_tools(overlay.apply))
        if is_complete:
            copy.fill()  # only the vectors of tools that changed
        after = [_rank(copy, name, query) for query in queries]
    return tuple(map(RankChange, queries, before, after))


def _rank(engine: Engine, name: str, query: str) -> QueryRank:
    found = judge_results(engine.search(query), engine)
    return QueryRank(rank_tool(engine, query, name), found.confidence)
