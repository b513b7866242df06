"""Fusion: standardised scores summed, each arm as loud as it can be trusted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .needs import spread
from .ranking import Floats, Fused, Ints, Ranking, Request, distinct

SERVER_SHARE = 0.15
_FEWEST_SERVERS = 3
_NEAR = 10
_BEYOND = 40
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
    scores = np.zeros(len(slots), np.float32)
    for ranking in rankings:
        scores += np.float32(ranking.trust) * ranking.at(slots)
    return _ordered(request, slots, _with_servers(request, slots, scores, server_share))


def _with_servers(request: Request, slots: Ints, scores: Floats, share: float) -> Floats:
    """A server whose best tool fits well makes its other tools a little likelier."""
    shared = request.index.shared
    if request.index.servers < _FEWEST_SERVERS or not len(slots):
        return scores
    groups = request.index.server.take(slots)
    best = np.full(len(shared.servers), -np.inf, np.float32)
    np.maximum.at(best, groups, scores)
    nameless = shared.servers.get("", -1)
    bonus = np.where(groups == nameless, np.float32(0), np.float32(share) * best.take(groups))
    return scores + bonus


def _ordered(request: Request, slots: Ints, scores: Floats) -> Fused:
    """Best first, equal scores by name: the same query gives the same bytes."""
    scores = scores.round(_DIGITS)
    order = np.argsort(-scores, kind="stable")
    slots, scores = slots.take(order), scores.take(order)
    seen = min(len(scores), request.limit + (_BEYOND if len(request.clauses) > 1 else _NEAR))
    if seen < len(scores):  # whatever ties with the last one seen may belong before it
        seen = int(np.count_nonzero(scores >= scores[seen]))
    slots, scores = slots[:seen], scores[:seen]
    tied = set(scores[1:][scores[1:] == scores[:-1]].tolist())
    if tied:
        tool = request.index.tool
        rows = zip(scores.tolist(), slots.tolist(), strict=True)
        keys = [(-score, tool(slot).name if score in tied else "") for score, slot in rows]
        slots = slots[sorted(range(seen), key=keys.__getitem__)]
    return Fused(slots, scores)
