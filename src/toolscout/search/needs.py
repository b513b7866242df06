"""Several needs in one request: once a tool serves one of them, the others come forward."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import sub

import numpy as np

from .ranking import Fused, Ranking, Request, is_parted

SHARE = 0.5
SERVED = 3.0
ONE_NEED = 2
"""Of so few clauses one is mostly a remark on the other; with more, more of them are needs."""

_DEPTH = 40


def spread(
    request: Request, rankings: Sequence[Ranking], fused: Fused, *, one_need: int = ONE_NEED
) -> Fused:
    """Order the best so that each clause of a request has its tool near the top.

    The best hit stays the best. After it, a tool that mainly serves a clause which has been served
    already falls back by what it would lose if that clause were not there.
    """
    share = SHARE * min(1.0, len(request.clauses) / one_need - 1)
    if share <= 0 or len(fused.slots) < 3:
        return fused
    slots, scores = fused.slots[:_DEPTH], fused.scores[:_DEPTH]
    parts = [r.parts(slots) for r in rankings if is_parted(r)]
    if not parts:
        return fused
    fits = parts[0] if len(parts) == 1 else np.sum(parts, axis=0)
    turn = _turns(scores.tolist(), fits.T.tolist(), min(request.limit, len(slots)), share)
    if turn == list(range(len(turn))):
        return fused
    slots, scores = slots.take(turn), np.minimum.accumulate(scores.take(turn))
    if len(fused.slots) > _DEPTH:
        slots = np.concatenate([slots, fused.slots[_DEPTH:]])
        scores = np.concatenate([scores, fused.scores[_DEPTH:]])
    return Fused(slots, scores)


def _turns(
    scores: Sequence[float], fits: Sequence[Sequence[float]], count: int, share: float
) -> list[int]:
    """The order in which tools come once so many places are given by how they fit each clause.

    No tool is worth more than its score, so the search for the next one ends there; nor does it
    ever become worth more than it was when last asked.
    """
    served = [0.0] * len(fits[0])
    worths = list(scores)
    waiting = list(range(len(scores)))
    turn: list[int] = []
    chosen = 0
    while True:
        waiting.remove(chosen)
        turn.append(chosen)
        if len(turn) >= count:
            return turn + waiting
        left = list(map(sub, fits[chosen], served))
        served[left.index(max(left))] += SERVED
        highest = -inf
        for place in waiting:
            score = scores[place]
            if score <= highest:
                break
            if worths[place] <= highest:
                continue
            fit = fits[place]
            worth = worths[place] = score - share * (max(fit) - max(map(sub, fit, served)))
            if worth > highest:
                highest, chosen = worth, place
