"""The recipe: which rankers score the tools, and how their scores become one order.

    S = extras + (1 - a) · (words + meaning of the whole request)
               + a · (words + meaning of the clause that the tool fits best)

Words are BM25F, meaning is the cosine of vectors; both are z-scores over the catalog, times the
trust that each ranker has in itself. For C clauses a = 0.6 · (1 - 1/C): the more clauses, the less
the whole says, and a request of one clause is its own best clause. Extras are the rankers that know
nothing of clauses: names, translated words, a user's own. Of several clauses, each then gets its
tool near the top. docs/decisions/ranking.md has the figures for every constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..embedders.arrays import Floats, Ints
from ..embedders.embedder import Embedder, is_cross_lingual
from .rankers.bm25f import BM25F
from .rankers.cross_lingual import CrossLingual
from .rankers.dense import Dense
from .rankers.exact import Exact
from .ranking import (
    FusedRanking,
    Ranker,
    Ranking,
    RankingRequest,
    check_slots,
    has_clause_scores,
)

CLAUSE_SHARE = 0.6
"""The weight of the best clause against the whole request, if there are many clauses."""

DIVERSITY_SHARE = 0.35
"""The part of a tool's lost fit that is taken off its score during diversification."""

# Of two clauses one is often a remark on the other; further ones are new needs. So there is a third
# of the diversity for two clauses, and all of it from three on.
_SINGLE_NEED_CLAUSES = 1.5
_MAX_DIVERSIFIED = 40
_SCORE_DIGITS = 4


def default_rankers(embedders: Sequence[Embedder]) -> Iterator[Ranker]:
    """Names, words, vectors of each embedder, and translated words from the first that can.

    Vectors weigh 1.0. Words weigh 0.8, less if the catalog does not know them all. Translations
    weigh 0.4, less if the catalog speaks the language of the request.
    """
    yield Exact()
    yield BM25F()
    yield from map(Dense, embedders)
    yield from (CrossLingual(embedder) for embedder in [*filter(is_cross_lingual, embedders)][:1])


class Parts(NamedTuple):
    """The score of some slots: what each ranking adds, and how each clause fits (a row each)."""

    by_ranking: Sequence[Floats]
    fits: Floats

    @property
    def total(self) -> Floats:
        """The summed score of each slot."""
        return np.add.reduce(self.by_ranking)


def fuse(
    request: RankingRequest,
    rankings: Sequence[Ranking],
    *,
    clause_share: float = CLAUSE_SHARE,
    diversity: float = DIVERSITY_SHARE,
) -> FusedRanking:
    """Sum the rankings, put the best tools in order, and diversify over the clauses."""
    if not rankings:
        return FusedRanking(np.zeros(0, np.int32), np.zeros(0, np.float32))
    slots = np.unique(np.concatenate([r.candidates for r in rankings]))
    check_slots(slots, request.index.size)
    parts = score_parts(request, rankings, slots, clause_share=clause_share)
    order = order_by_score(request, slots, parts.total)
    ranked = FusedRanking(slots[order], parts.total[order].round(_SCORE_DIGITS))
    share = diversity * min(1.0, len(parts.fits) / _SINGLE_NEED_CLAUSES - 1)
    if share <= 0:
        return ranked
    fits = parts.fits[:, order[:_MAX_DIVERSIFIED]]
    return diversify(ranked, fits, wanted=request.limit, share=share)


def score_parts(
    request: RankingRequest,
    rankings: Sequence[Ranking],
    slots: Ints,
    *,
    clause_share: float = CLAUSE_SHARE,
) -> Parts:
    """What each ranking adds to the score of some slots."""
    # BM25 sums and cosines are on different scales. As z-scores over the whole catalog they can be
    # added, and a clear winner keeps its lead, which a fusion by rank would lose.
    clauses: dict[int, Floats] = {}
    if len(request.clauses) > 1:
        clauses = {
            i: r.clause_scores(slots) for i, r in enumerate(rankings) if has_clause_scores(r)
        }
    fits = np.zeros((0, len(slots)), np.float32)
    best = columns = np.arange(len(slots))
    if clauses:
        # The clause with the best sum of both, so that words and meaning speak of the same need.
        fits: Floats = np.add.reduce(list(clauses.values()))[1:]
        best = 1 + fits.argmax(axis=0)
    share = clause_weight(len(fits), clause_share)
    parts = [
        (1 - share) * clauses[i][0] + share * clauses[i][best, columns]
        if i in clauses
        else r.scores_at(slots) * np.float32(r.trust)
        for i, r in enumerate(rankings)
    ]
    return Parts(parts, fits)


def clause_weight(count: int, share: float = CLAUSE_SHARE) -> float:
    """The weight of the best of some clauses against the whole."""
    return share * (1 - 1 / max(1, count))


def order_by_score(request: RankingRequest, slots: Ints, scores: Floats) -> Ints:
    """The places in descending order of score, ties by name, whatever order tools came in."""
    # Rounded before sorting: what looks equal to a reader is a tie.
    rounded: Floats = -scores.round(_SCORE_DIGITS)
    order = rounded.argsort(kind="stable")
    ranks = rounded[order]
    equal: list[int] = (ranks[1:] == ranks[:-1]).nonzero()[0].tolist()
    if equal:
        tied = sorted({*equal, *(place + 1 for place in equal)})
        places: list[int] = order[tied].tolist()
        tools = request.index.shared.tools
        named = [(float(rounded[p]), tools[int(slots[p])].name, p) for p in places]
        order[tied] = [place for *_, place in sorted(named)]
    return order.astype(np.int32)


def diversify(
    ranked: FusedRanking, fits: Floats, *, wanted: int, share: float = DIVERSITY_SHARE
) -> FusedRanking:
    """Reorder the best tools so that each need has its tool near the top.

    `fits` has a row per need and a column for each of the first tools. The best tool stays the
    best. A tool that mainly serves a need which has its tool already loses `share` of what it would
    lose without that need. When every need has a tool, the next round begins.
    """
    # Greedy, as in maximal marginal relevance, with needs in place of pairwise similarity.
    scores = ranked.scores[: fits.shape[1]].astype(np.float64)
    left = np.ones(len(scores), np.bool_)
    unserved = np.ones(len(fits), np.bool_)
    best_fit = fits.max(axis=0)
    order: list[int] = []
    for _ in range(min(wanted, len(scores))):
        loss = best_fit - fits[unserved].max(axis=0)
        place = int(np.where(left, scores - share * loss, -np.inf).argmax()) if order else 0
        order.append(place)
        left[place] = False
        unserved[np.where(unserved, fits[:, place], -np.inf).argmax()] = False
        if not unserved.any():
            unserved[:] = True
    order += np.flatnonzero(left).tolist()
    rest = slice(len(order), None)
    slots = np.concatenate([ranked.slots[order], ranked.slots[rest]])
    values = np.concatenate([ranked.scores[order], ranked.scores[rest]])
    # A tool that was moved up must not have a higher score than the one before it.
    return FusedRanking(slots, np.minimum.accumulate(values))
