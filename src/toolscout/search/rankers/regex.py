"""Patterns: every tool whose name or description has a match."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..hit import Reason
from ..pattern import Haystack, Pattern
from ..ranking import Floats, Ints, RankingRequest


class Regex:
    """The arm of patterns; a match in the name counts more than one in the description."""

    def rank(self, request: RankingRequest) -> PatternRanking | None:
        """The tools that a pattern matches."""
        if request.query.pattern is None:
            return None
        pattern = Pattern.of(request.query.pattern)
        slots = np.flatnonzero(request.allowed)
        tools = [request.index.tool(s) for s in slots.tolist()]
        haystack = Haystack.of((t.name, t.description) for t in tools)
        found = haystack.find_matches(pattern)
        return PatternRanking(request, pattern, slots[np.array(found, np.int64)].astype(np.int32))


@dataclass(frozen=True, slots=True)
class PatternRanking:
    """What a pattern found."""

    request: RankingRequest
    pattern: Pattern
    candidates: Ints
    trust: float = 1.0
    arm: str = "pattern"

    def scores_at(self, slots: Ints) -> Floats:
        """Two for a match in the name, one in the description only."""
        found = set(self.candidates.tolist())
        named = self.request.index.tool
        gains = [
            0.0 if s not in found else 1.0 if self.pattern.find(named(s).name) is None else 2.0
            for s in slots.tolist()
        ]
        return np.array(gains, np.float32)

    def explain(self, slot: int) -> Reason | None:
        """The text that matched, and where."""
        tool = self.request.index.tool(slot)
        for field, text in (("name", tool.name), ("description", tool.description)):
            if (found := self.pattern.find(text)) is not None:
                return Reason(self.arm, field=field, words=(found[:80],))
        return None
