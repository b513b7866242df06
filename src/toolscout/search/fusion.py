"""Fuse the scores of all rankers, then diversify so that each need of a request is served."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import kernel
from .ranking import (
    Floats,
    FusedRanking,
    Ints,
    Ranking,
    RankingRequest,
    has_clause_scores,
    unique_slots,
)

DIVERSITY_SHARE = 0.5
SERVED_PENALTY = 3.0
SINGLE_NEED_CLAUSES = 2
"""Of so few clauses one is mostly a remark on the other; with more, more of them are needs."""

_MAX_CANDIDATES = 40


def diversify(
    request: RankingRequest,
    rankings: Sequence[Ranking],
    fused: FusedRanking,
    *,
    one_need: int = SINGLE_NEED_CLAUSES,
) -> FusedRanking:
    """Order the best so that each clause of a request has its tool near the top.

    The best hit stays the best. After it, a tool that mainly serves a clause which has been served
    already falls back by what it would lose if that clause were not there.
    """
    share = DIVERSITY_SHARE * min(1.0, len(request.clauses) / one_need - 1)
    if share <= 0 or len(fused.slots) < 3:
        return fused
    slots, scores = fused.slots[:_MAX_CANDIDATES], fused.scores[:_MAX_CANDIDATES]
    parts = [r.clause_scores(slots) for r in rankings if has_clause_scores(r)]
    if not parts:
        return fused
    fits = parts[0] if len(parts) == 1 else np.sum(parts, axis=0)
    turn = kernel.diverse_order(scores, fits, min(request.limit, len(slots)), share, SERVED_PENALTY)
    slots, scores = slots.take(turn), np.minimum.accumulate(scores.take(turn))
    if len(fused.slots) > _MAX_CANDIDATES:
        slots = np.concatenate([slots, fused.slots[_MAX_CANDIDATES:]])
        scores = np.concatenate([scores, fused.scores[_MAX_CANDIDATES:]])
    return FusedRanking(slots, scores)


SERVER_SHARE = 0.15
_FEWEST_SERVERS = 3
_EXTRA_HITS = 10
_EXTRA_HITS_FOR_CLAUSES = 35


def zscore(request: RankingRequest, rankings: Sequence[Ranking]) -> FusedRanking:
    """Sum the arms, lean a little towards servers that fit, give every need its turn."""
    return diversify(request, rankings, sum_rankings(request, rankings))


def sum_rankings(
    request: RankingRequest, rankings: Sequence[Ranking], *, server_share: float = SERVER_SHARE
) -> FusedRanking:
    """The arms added up, each as loud as it is trusted; nothing is done for several needs."""
    if not rankings:
        return FusedRanking(np.zeros(0, np.int32), np.zeros(0, np.float32))
    offered = [r.candidates for r in rankings]
    slots = offered[0] if len(offered) == 1 else unique_slots(np.concatenate(offered))
    scores: Floats = rankings[0].scores_at(slots) * rankings[0].trust
    for ranking in rankings[1:]:
        scores += ranking.scores_at(slots) * ranking.trust
    return _order(request, slots, scores, _server_boost(request, server_share))


def _server_boost(request: RankingRequest, share: float) -> kernel.ServerBoost | None:
    """A server whose best tool fits well makes its other tools a little likelier."""
    index = request.index
    if index.server_count < _FEWEST_SERVERS:
        return None
    numbers = index.shared.servers  # which only ever become more
    return kernel.ServerBoost(index.server, len(numbers), numbers.get("", -1), share)


def _order(
    request: RankingRequest, slots: Ints, scores: Floats, leaning: kernel.ServerBoost | None
) -> FusedRanking:
    """Best first, equal scores by name: the same query gives the same bytes."""
    seen = request.limit + (_EXTRA_HITS_FOR_CLAUSES if len(request.clauses) > 1 else _EXTRA_HITS)
    slots, scores, is_tied = kernel.order_slots(slots, scores, request.index.size, seen, leaning)
    if is_tied:
        equal: list[int] = (scores[1:] == scores[:-1]).nonzero()[0].tolist()
        tied = sorted({*equal, *(place + 1 for place in equal)})
        ranks: list[float] = (-scores[tied]).tolist()
        chosen: list[int] = slots[tied].tolist()
        names = [request.index.tool(slot).name for slot in chosen]
        slots[tied] = [slot for *_, slot in sorted(zip(ranks, names, chosen, strict=True))]
    return FusedRanking(slots, scores)
