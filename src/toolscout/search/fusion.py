"""Fusion: standardised scores summed, each arm as loud as it can be trusted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import kernel
from .needs import spread
from .ranking import Floats, Fused, Ints, Ranking, Request, distinct

SERVER_SHARE = 0.15
_FEWEST_SERVERS = 3
_NEAR = 10
_BEYOND = 35


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
    scores: Floats = rankings[0].at(slots) * rankings[0].trust
    for ranking in rankings[1:]:
        scores += ranking.at(slots) * ranking.trust
    return _ordered(request, slots, scores, _leaning(request, server_share))


def _leaning(request: Request, share: float) -> kernel.Leaning | None:
    """A server whose best tool fits well makes its other tools a little likelier."""
    index = request.index
    if index.servers < _FEWEST_SERVERS:
        return None
    numbers = index.shared.servers  # which only ever become more
    return kernel.Leaning(index.server, len(numbers), numbers.get("", -1), share)


def _ordered(
    request: Request, slots: Ints, scores: Floats, leaning: kernel.Leaning | None
) -> Fused:
    """Best first, equal scores by name: the same query gives the same bytes."""
    seen = request.limit + (_BEYOND if len(request.clauses) > 1 else _NEAR)
    slots, scores, is_tied = kernel.ordered(slots, scores, request.index.size, seen, leaning)
    if is_tied:
        equal: list[int] = (scores[1:] == scores[:-1]).nonzero()[0].tolist()
        tied = sorted({*equal, *(place + 1 for place in equal)})
        ranks: list[float] = (-scores[tied]).tolist()
        chosen: list[int] = slots[tied].tolist()
        names = [request.index.tool(slot).name for slot in chosen]
        slots[tied] = [slot for *_, slot in sorted(zip(ranks, names, chosen, strict=True))]
    return Fused(slots, scores)
