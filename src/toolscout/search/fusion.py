"""Fusion: standardised scores summed, each arm as loud as it can be trusted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .needs import spread
from .ranking import Floats, Fused, Ints, Ranking, Request

SERVER_SHARE = 0.15
_FEWEST_SERVERS = 3
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
    slots = offered[0] if len(offered) == 1 else np.unique(np.concatenate(offered))
    scores = np.zeros(len(slots), np.float32)
    for ranking in rankings:
        scores += np.float32(ranking.trust) * ranking.at(slots)
    return _ordered(request, slots, _with_servers(request, slots, scores, server_share))


def _with_servers(request: Request, slots: Ints, scores: Floats, share: float) -> Floats:
    """A server whose best tool fits well makes its other tools a little likelier."""
    shared = request.index.shared
    if request.index.servers < _FEWEST_SERVERS or not len(slots):
        return scores
    groups = request.index.server[slots]
    best = np.full(len(shared.servers), -np.inf, np.float32)
    np.maximum.at(best, groups, scores)
    nameless = shared.servers.get("", -1)
    bonus = np.where(groups == nameless, np.float32(0), np.float32(share) * best[groups])
    return scores + bonus


def _ordered(request: Request, slots: Ints, scores: Floats) -> Fused:
    """Best first, equal scores by name: the same query gives the same bytes."""
    scores = scores.round(_DIGITS)
    order = np.argsort(-scores, kind="stable")
    slots, scores = slots[order], scores[order]
    seen = min(len(scores), request.limit + _BEYOND)
    if seen < len(scores):  # whatever ties with the last one seen may belong before it
        seen = int((scores >= scores[seen]).sum())
    slots, scores = slots[:seen], scores[:seen]
    if (scores[1:] == scores[:-1]).any():
        values = scores.tolist()
        names = [request.index.tool(s).name for s in slots.tolist()]
        rows = sorted(range(len(names)), key=lambda i: (-values[i], names[i]))
        slots, scores = slots[rows], scores[rows]
    return Fused(slots, scores)
