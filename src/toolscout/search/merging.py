"""Merge the results of several queries: agreement counts, and each query keeps its best hit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    fused = fuse_names([{hit.name: hit.score for hit in r.hits} for r in found], limit=limit)
    order = list(dict.fromkeys((*selected, *fused)))
    firsts = {r.hits[0].name for r in found if r.hits and limit}
    kept = keep_best(order, selected=selected, firsts=firsts, room=max(limit, len(found)))
    following = chain(order, *(r.near for r in found))
    near = dict.fromkeys(n for n in following if n not in kept)
    notes = dict.fromkeys(n for r in found for n in r.notes)
    if len(found) == MAX_QUERIES:
        notes[f"At most {MAX_QUERIES} queries are read at once."] = None
    return QueryHits(
        hits=tuple(best[name] for name in kept),
        is_selection=bool(found) and all(r.is_selection for r in found),
        # The weakest query decides: the answer is complete only if every query has its tool.
        confidence=min((r.confidence for r in found), default=0.0),
        near=tuple(near)[:MAX_NEAR],
        notes=tuple(notes),
        vectors=tuple(vector for r in found for vector in r.vectors),
        is_readable=all(r.is_readable for r in found),
    )


def keep_best(
    order: Sequence[str], *, selected: Collection[str], firsts: Collection[str], room: int
) -> list[str]:
    """The best names in their order, with all selected ones and the first of every query.

    The firsts take the places of the last names that are the best of no query.
    """
    kept = {*selected, *[name for name in order if name in firsts][:room]}
    for name in order:
        if len(kept) >= max(room, len(selected)):
            break
        kept.add(name)
    return [name for name in order if name in kept]


def fuse_names(scores: Sequence[Mapping[str, float]], *, limit: int) -> list[str]:
    """The names that several queries found, best first; `scores` has those of each query.

    The scores of a query are best first, and on the scale of the others.
    """
    answered = [found for found in scores if found]
    if not answered:
        return []
    names = list(dict.fromkeys(chain.from_iterable(answered)))
    fits = np.zeros((len(answered), len(names)), np.float32)
    for row, found in zip(fits, answered, strict=True):
        # A tool that a query did not find is at most as good as its last hit.
        last = min(0.0, *found.values())
        row[:] = [found.get(name, last) for name in names]
    share = clause_weight(len(fits))
    total = (1 - share) * fits.mean(axis=0) + share * fits.max(axis=0)
    order = np.lexsort((np.array(names), -total.round(4))).astype(np.int32)
    ranked = FusedRanking(order, total[order])
    return [names[place] for place in diversify(ranked, fits[:, order], wanted=limit).slots]
