"""Several needs in one request: once a tool serves one of them, the others come forward."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import kernel
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
    turn = kernel.turns(scores, fits, min(request.limit, len(slots)), share, SERVED)
    slots, scores = slots.take(turn), np.minimum.accumulate(scores.take(turn))
    if len(fused.slots) > _DEPTH:
        slots = np.concatenate([slots, fused.slots[_DEPTH:]])
        scores = np.concatenate([scores, fused.scores[_DEPTH:]])
    return Fused(slots, scores)
