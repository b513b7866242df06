"""Several needs in one request: once a tool serves one of them, the others come forward."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .ranking import Fused, Parted, Ranking, Request

SHARE = 0.5
SERVED = 3.0
_DEPTH = 40
_PLACES = 12


def spread(request: Request, rankings: Sequence[Ranking], fused: Fused) -> Fused:
    """Order the best so that each clause of a request has its tool near the top.

    The best hit stays the best. After it, a tool that mainly serves a clause which has been served
    already falls back by what it would lose if that clause were not there.
    """
    if len(request.clauses) < 2 or len(fused.slots) < 3:
        return fused
    slots, scores = fused.slots[:_DEPTH], fused.scores[:_DEPTH]
    parts = [r.parts(slots) for r in rankings if isinstance(r, Parted)]
    if not parts:
        return fused
    table = np.sum(parts, axis=0)
    strongest = table.max(axis=0)
    served = np.zeros(len(request.clauses), np.float32)
    order: list[int] = []
    left = scores.astype(np.float32).copy()
    for _ in range(min(_PLACES, len(slots))):
        open_needs = table - served[:, None]
        chosen = int((left + SHARE * (open_needs.max(axis=0) - strongest)).argmax())
        order.append(chosen)
        left[chosen] = -np.inf
        served[int(open_needs[:, chosen].argmax())] += SERVED
    rest = [i for i in range(len(slots)) if i not in set(order)]
    turn = np.array([*order, *rest])
    return Fused(
        np.concatenate([slots[turn], fused.slots[_DEPTH:]]),
        np.concatenate([np.minimum.accumulate(scores[turn]), fused.scores[_DEPTH:]]),
    )
