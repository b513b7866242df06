"""Rank tools by a regular expression over name and description."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...embedders.arrays import Floats, Ints
from ..hit import Reason
from ..pattern import Pattern
from ..ranking import RankingRequest


class Regex:
    """Finds the tools that a pattern matches; matches in the name come first."""

    # In `search_arm` events and in metrics, so it stays even if the class is renamed.
    event_name = "regex"

    def rank(self, request: RankingRequest) -> PatternRanking | None:
        """Match the query's pattern against all visible tools."""
        if request.query.pattern is None:
            return None
        pattern = Pattern.of(request.query.pattern)
        slots = np.flatnonzero(request.allowed)
        tools = [request.index.tool(s) for s in slots.tolist()]
        found = pattern.find_tools((t.name, t.description) for t in tools)
        return PatternRanking(request, pattern, slots[np.array(found, np.int64)].astype(np.int32))


@dataclass(frozen=True, slots=True)
class PatternRanking:
    """The tools that a pattern matches."""

    request: RankingRequest
    pattern: Pattern
    candidates: Ints
    trust: float = 1.0
    arm: str = "pattern"

    def scores_at(self, slots: Ints) -> Floats:
        """Two for a match in the name, one for a match in the description only."""
        found = set(self.candidates.tolist())
        named = self.request.index.tool
        gains = [
            0.0 if s not in found else 1.0 if self.pattern.find(named(s).name) is None else 2.0
            for s in slots.tolist()
        ]
        return np.array(gains, np.float32)

    def explain(self, slot: int) -> Reason | None:
        """The matched text and its field."""
        tool = self.request.index.tool(slot)
        for field, text in (("name", tool.name), ("description", tool.description)):
            if (found := self.pattern.find(text)) is not None:
                return Reason(self.arm, field=field, words=(found[:80],))
        return None
