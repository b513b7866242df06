"""Merge the results of several queries: agreement counts, and each query keeps its best hit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from .hit import MAX_NEAR, Hit, QueryHits
from .query import MAX_QUERIES
from .ranking import FusedRanking
from .recipe import clause_weight, diversify

MIN_MERGED_HITS = 30
"""Each of several queries is asked for at least this many hits, so that agreement can show."""


def merge_queries(found: Sequence[QueryHits], *, limit: int) -> QueryHits:
    """Fuse the results of several queries, as the clauses of one request are fused.

    A tool's score is the mean over the queries and its best, and each need gets its tool near the
    top. The best hit of every query is kept. Tools that were selected by name come first.
    """
    best: dict[str, Hit] = {}
    for hit in chain.from_iterable(r.hits for r in found):
        if hit.name not in best or hit.score > best[hit.name].score:
            best[hit.name] = hit
    selected = [hit.name for r in found if r.is_selection for hit in r.hits]
    order = list(dict.fromkeys((*selected, *_order_names(found, list(best), limit))))
    # At least one hit per query, in place of the last ones that are the best of no query.
    room = max(limit, len(found))
    firsts = {r.hits[0].name for r in found if r.hits and limit}
    kept = {*selected, *[n for n in order if n in firsts][:room]}
    for name in order:
        if len(kept) >= max(room, len(selected)):
            break
        kept.add(name)
    following = chain(order, *(r.near for r in found))
    near = dict.fromkeys(n for n in following if n not in kept)
    notes = dict.fromkeys(n for r in found for n in r.notes)
    if len(found) == MAX_QUERIES:
        notes[f"At most {MAX_QUERIES} queries are read at once."] = None
    return QueryHits(
        hits=tuple(best[name] for name in order if name in kept),
        is_selection=bool(found) and all(r.is_selection for r in found),
        # The weakest query decides: the answer is complete only if every query has its tool.
        confidence=min((r.confidence for r in found), default=0.0),
        near=tuple(near)[:MAX_NEAR],
        notes=tuple(notes),
        vectors=tuple(vector for r in found for vector in r.vectors),
    )


def _order_names(found: Sequence[QueryHits], names: list[str], limit: int) -> list[str]:
    """The names, best first."""
    answered = [r for r in found if r.hits]
    if not answered:
        return []
    places = {name: place for place, name in enumerate(names)}
    fits = np.zeros((len(answered), len(names)), np.float32)
    for row, result in zip(fits, answered, strict=True):
        # A tool that a query did not find is at most as good as its last hit.
        row[:] = min(0.0, result.hits[-1].score)
        row[[places[hit.name] for hit in result.hits]] = [hit.score for hit in result.hits]
    share = clause_weight(len(fits))
    scores = (1 - share) * fits.mean(axis=0) + share * fits.max(axis=0)
    order = np.lexsort((np.array(names), -scores.round(4))).astype(np.int32)
    ranked = FusedRanking(order, scores[order])
    return [names[place] for place in diversify(ranked, fits[:, order], wanted=limit).slots]
