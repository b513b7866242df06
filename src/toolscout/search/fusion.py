"""Fusion: standardised scores summed, each arm as loud as it can be trusted."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence

import numpy as np

from .needs import spread
from .ranking import Floats, Fused, Ints, Ranking, Request, distinct

SERVER_SHARE = 0.15
_FEWEST_SERVERS = 3
_NEAR = 10
_BEYOND = 35
_DIGITS = 4  # as hits show them; what lies beyond is noise of the arithmetic


def zscore(request: Request, rankings: Sequence[Ranking]) -> Fused:
    """Sum the arms, lean a little towards servers that fit, give every need its turn."""
    return spread(request, rankings, summed(request, rankings))


def summed(
    request: Request, rankings: Sequence[Ranking], *, server_share: float = SERVER_SHARE
) -> Fused:
    """The arms added up, each as loud as it is trusted; nothing is done for several needs."""
    if not rankings:
        return Fused(np.zeros(0, np.int32), np.zeros(0, np.float32))
    offered = [r.candidates for r in rankings]
    slots = offered[0] if len(offered) == 1 else distinct(np.concatenate(offered))
    first, *others = rankings
    scores: Floats = np.float32(first.trust) * first.at(slots)
    for ranking in others:
        scores += np.float32(ranking.trust) * ranking.at(slots)
    return _ordered(request, slots, _with_servers(request, slots, scores, server_share))


def _with_servers(request: Request, slots: Ints, scores: Floats, share: float) -> Floats:
    """A server whose best tool fits well makes its other tools a little likelier."""
    shared = request.index.shared
    if request.index.servers < _FEWEST_SERVERS or not len(slots):
        return scores
    groups = request.index.server.take(slots)
    nameless = shared.servers.get("")
    best = np.full(len(shared.servers), -np.inf, np.float32)  # servers only ever become more
    np.maximum.at(best, groups, scores)
    if nameless is not None:
        best[nameless] = 0
    bonus: Floats = np.float32(share) * best.take(groups)
    return scores + bonus


def _ordered(request: Request, slots: Ints, scores: Floats) -> Fused:
    """Best first, equal scores by name: the same query gives the same bytes."""
    ranks: Floats = -scores.round(_DIGITS)
    order = ranks.argsort()
    ranks = ranks.take(order)
    seen = request.limit + (_BEYOND if len(request.clauses) > 1 else _NEAR)
    if seen < len(order):  # whatever ties with the last one seen may belong before it
        seen = bisect(ranks, ranks[seen - 1], seen)
        order, ranks = order[:seen], ranks[:seen]
    slots = slots.take(order)
    equal: list[int] = (ranks[1:] == ranks[:-1]).nonzero()[0].tolist()
    if equal:
        tied = sorted({*equal, *(place + 1 for place in equal)})
        rows = zip(ranks[tied].tolist(), slots[tied].tolist(), strict=True)
        named = [(rank, request.index.tool(slot).name, slot) for rank, slot in rows]
        slots[tied] = [slot for *_, slot in sorted(named)]
    return Fused(slots, -ranks)
