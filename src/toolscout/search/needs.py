"""Several needs in one request: once a tool serves one of them, the others come forward."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .ranking import Fused, Ranking, Request, is_parted

SHARE = 0.5
SERVED = 3.0
_DEPTH = 40


def spread(request: Request, rankings: Sequence[Ranking], fused: Fused) -> Fused:
    """Order the best so that each clause of a request has its tool near the top.

    The best hit stays the best. After it, a tool that mainly serves a clause which has been served
    already falls back by what it would lose if that clause were not there.
    """
    if len(request.clauses) < 2 or len(fused.slots) < 3:
        return fused
    slots, scores = fused.slots[:_DEPTH], fused.scores[:_DEPTH]
    parts = [r.parts(slots) for r in rankings if is_parted(r)]
    if not parts:
        return fused
    open_needs = np.sum(parts, axis=0)
    left = scores - np.float32(SHARE) * open_needs.max(axis=0)
    order = [0]
    while len(order) < min(request.limit, len(slots)):
        left[order[-1]] = -np.inf
        open_needs[open_needs[:, order[-1]].argmax()] -= SERVED
        worth = np.maximum.reduce(open_needs)
        worth *= np.float32(SHARE)
        worth += left
        order.append(int(worth.argmax()))
    taken = set(order)
    rest = [i for i in range(len(slots)) if i not in taken]
    turn = np.array([*order, *rest])
    return Fused(
        np.concatenate([slots[turn], fused.slots[_DEPTH:]]),
        np.concatenate([np.minimum.accumulate(scores[turn]), fused.scores[_DEPTH:]]),
    )
