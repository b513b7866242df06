"""Rank deprecated tools below the tools that replace them."""

from __future__ import annotations

from math import inf

import numpy as np

from ..catalog.deprecation import is_deprecated, replacement_names
from .analyzer import terms
from .ranking import FusedRanking, RankingRequest

COMPARABLE_SHARE = 0.8
"""Without a known successor, a tool falls below hits with at least this share of its score."""

(_TERM,) = terms("deprecated")


def demote_deprecated(request: RankingRequest, fused: FusedRanking) -> FusedRanking:
    """Put each deprecated tool behind its successor, or behind hits that are about as good.

    Nothing changes for a request that asks for deprecated tools.
    """
    # One lookup: most catalogs do not contain the word at all.
    known = request.find_terms((_TERM,))
    if not known or _TERM in request.terms:
        return fused
    having = set(known[0].slots.tolist())
    order: list[int] = fused.slots.tolist()
    scores = dict(zip(order, fused.scores.tolist(), strict=True))
    marked = [s for s in order if s in having and is_deprecated(request.index.tool(s))]
    if not marked:
        return fused
    for slot in reversed(marked):  # the best last, so that it keeps its place before the others
        _demote(request, slot, order, scores)
    slots = np.array(order, np.int32)
    values = np.array([scores[slot] for slot in order], np.float32)
    # A tool that was moved must not have a higher score than the one before it.
    return FusedRanking(slots, np.minimum.accumulate(values))


def _demote(request: RankingRequest, slot: int, order: list[int], scores: dict[int, float]) -> None:
    """Move one tool down, or the successor that fits best up to its place."""
    place = order.index(slot)
    successors = _successors(request, slot)
    if not successors:
        floor = COMPARABLE_SHARE * scores[slot]
        target = max([place, *(i for i, s in enumerate(order) if scores[s] >= floor > 0)])
        order.insert(target, order.pop(place))
        return
    best = max(successors, key=lambda s: scores.get(s, -inf))
    if best in order[:place]:
        return
    # It does what the deprecated tool did, so it fits as well, in whatever words it says so.
    if best in scores:
        order.remove(best)
    order.insert(place, best)
    scores[best] = scores[slot]


def _successors(request: RankingRequest, slot: int) -> list[int]:
    """The visible tools that a description names as replacement, in its order."""
    index, tool = request.index, request.index.tool(slot)
    found: list[int] = []
    for name in replacement_names(tool):
        same = [s for s in index.slots_by_name(name) if s != slot and request.allowed[s]]
        same.sort(key=lambda s: (index.tool(s).server != tool.server, index.tool(s).name))
        found += same[:1]
    return found
