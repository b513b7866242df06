"""Answer one query over one snapshot: filter, prepare, rank, fuse, explain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..embedders.arrays import Mask
from ..errors import EmbedderError
from .clauses import drop_contents, split_clauses
from .confidence import confidence, has_words, is_exact_name, strongest_evidence
from .deprecation import demote_deprecated
from .hit import MAX_NEAR, Hit, QueryHits, Reason
from .index import Index
from .query import MAX_NAMES, Query
from .rankers.dense import DenseRanking
from .rankers.regex import Regex
from .ranking import (
    MAX_NAME_CHARS,
    FusedRanking,
    Fusion,
    Lift,
    Ranker,
    Ranking,
    RankingRequest,
    apply_filters,
    note_unknown_filters,
)
from .recipe import score_parts
from .spelling import Spelling
from .typos import correct_typos

# Each ranker proposes this many candidates, so that a tool which only one ranker likes a little can
# still win with the sum of all scores.
_MIN_CANDIDATES = 100
# A note about missing names stays short, whatever was asked for: it may go into a model's context.
MISSING_NAMES_PREFIX = "No tool is named "
"""The start of the note about selected names that do not exist."""
STILL_LOADING = "Semantic search is still loading"
"""The start of the reason why a query was not encoded yet."""

STILL_COMPUTING = "Vectors are still being computed"
"""The start of the note about tools without vectors yet."""

WITHOUT_VECTORS_PREFIX = "Searched without vectors: "
"""The start of the note about an embedder that could not encode the query."""

_MAX_NAMED_MISSING = 10
_MAX_QUOTED_CHARS = 80


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The parts of an engine that rank; `can_read` says if an embedder knows a text's language."""

    rankers: tuple[Ranker, ...]
    fusion: Fusion
    spelling: Spelling | None
    lift: Lift | None = None
    can_read: Callable[[str], bool] | None = None


def run_query(
    pipeline: Pipeline, index: Index, query: Query, mask: Mask, *, limit: int
) -> QueryHits:
    """Answer one query from the tools that the mask allows."""
    if query.is_empty:
        return QueryHits()
    found = _run_filtered(pipeline, index, query, apply_filters(index, query, mask), limit)
    unknown = note_unknown_filters(index, query, mask)
    return found._replace(notes=(*found.notes, *unknown)) if unknown else found


def _run_filtered(
    pipeline: Pipeline, index: Index, query: Query, mask: Mask, limit: int
) -> QueryHits:
    """Answer one query from the tools that pass its filters."""
    if query.select:
        return _select_by_name(index, query, mask)
    if query.pattern is not None:
        request = RankingRequest(query, index, mask, limit=limit, depth=_candidate_count(limit))
        found = _rank_and_fuse(pipeline, request, rankers=(Regex(),))
        # A pattern either matches or not, so there is nothing to estimate. If a word only looked
        # like a pattern and nothing matches, it is searched as a word.
        if found.hits or not query.is_guess:
            return found._replace(confidence=float(bool(found.hits)))
    if not query.words:
        return _list_tools(index, mask, limit)
    request, notes = prepare_request(pipeline, index, query, mask, limit=limit)
    return _rank_and_fuse(pipeline, request, notes=notes)


def prepare_request(
    pipeline: Pipeline, index: Index, query: Query, mask: Mask, *, limit: int
) -> tuple[RankingRequest, tuple[str, ...]]:
    """What the rankers get for the words of a query, typos corrected; with notes for the reader."""
    query = query._replace(words=drop_contents(query.words))
    clauses: Sequence[str] = split_clauses(query.words)
    is_readable = pipeline.can_read is None or pipeline.can_read(query.words)
    read = correct_typos(index, pipeline.spelling, clauses, mask)
    notes: tuple[str, ...] = ()
    if read.corrections:
        notes = (f"Read {', '.join(f'{w!r} as {r!r}' for w, r in read.corrections.items())}.",)
        # The embedder gets the corrected text too, but not of a request in another language: its
        # words, "corrected" to similar English ones, would lose their meaning.
        if not read.is_foreign:
            corrected = read.apply_to(query.words)
            clauses = [corrected if c == query.words else read.apply_to(c) for c in clauses]
            query = query._replace(words=corrected)
    if query.is_cut:
        notes = (
            *notes,
            "The query was too long and was cut: describe the tool you need in one sentence.",
        )
    analysis = read.terms, read.known_terms, clauses, read.clause_terms
    depth = _candidate_count(limit)
    request = RankingRequest(query, index, mask, *analysis, limit, depth, is_readable)
    return request, notes


def _candidate_count(limit: int) -> int:
    """How many candidates each ranker proposes."""
    return max(_MIN_CANDIDATES, 3 * limit)


def _rank_and_fuse(
    pipeline: Pipeline,
    request: RankingRequest,
    *,
    rankers: Sequence[Ranker] | None = None,
    notes: tuple[str, ...] = (),
) -> QueryHits:
    found, failures = rank_all(rankers or pipeline.rankers, request)
    notes = (*notes, *failures)
    rankings, fused = fuse_rankings(pipeline, request, found)
    fused = _drop_forbidden(request, fused)
    if not len(fused.slots):
        return QueryHits(notes=notes, is_readable=request.is_readable)
    # A name in words, as in "get weather old", may be a request; an identifier is that tool.
    if not (request.query.name and is_exact_name(rankings, fused)):
        fused = demote_deprecated(request, fused)
    hits = _make_hits(request, rankings, fused)
    # A lift adds its ranking after the others.
    evidence = strongest_evidence(request, rankings, fused, lifts=rankings[len(found) :])
    estimate = confidence(evidence) if has_words(request) else 0.0
    return QueryHits(
        hits=hits,
        confidence=1.0 if is_exact_name(rankings, fused) else estimate,
        near=_next_names(request, fused, hits),
        notes=notes,
        evidence=evidence,
        vectors=tuple([r.query_vector for r in rankings if isinstance(r, DenseRanking)][:1]),
        is_readable=request.is_readable,
    )


def rank_all(
    rankers: Sequence[Ranker], request: RankingRequest
) -> tuple[list[Ranking], tuple[str, ...]]:
    """The rankings that contribute, and notes on embedders that could not encode the query."""
    found: list[Ranking] = []
    notes: tuple[str, ...] = ()
    for ranker in rankers:
        try:
            ranking = ranker.rank(request)
        except EmbedderError as error:  # a remote embedder that is down must not stop the search
            notes = (*notes, f"{WITHOUT_VECTORS_PREFIX}{error}")
            continue
        if ranking is not None:
            found.append(ranking)
    return found, notes


def fuse_rankings(
    pipeline: Pipeline, request: RankingRequest, rankings: Sequence[Ranking]
) -> tuple[Sequence[Ranking], FusedRanking]:
    """The rankings that took part, and the order that they give."""
    if pipeline.lift is None:
        return rankings, pipeline.fusion(request, rankings)
    return pipeline.lift.fuse(request, rankings, pipeline.fusion)


def _drop_forbidden(request: RankingRequest, fused: FusedRanking) -> FusedRanking:
    """Drop slots that the caller may not see, in case a custom ranker or fusion returned some."""
    is_allowed = request.allowed.take(fused.slots)
    if np.count_nonzero(is_allowed) == len(is_allowed):
        return fused
    return FusedRanking(fused.slots[is_allowed], fused.scores[is_allowed])


def _make_hits(
    request: RankingRequest, rankings: Sequence[Ranking], fused: FusedRanking
) -> tuple[Hit, ...]:
    """The best tools, then the tools that they declare as related, up to the limit."""
    tools, limit = request.index.shared.tools, request.limit
    best: zip[tuple[int, float]] = zip(
        fused.slots[:limit].tolist(), fused.scores[:limit].tolist(), strict=True
    )
    # round(x, 4) goes through a decimal string and takes twice as long.
    hits = [
        Hit(tools[s], round(1e4 * x) / 1e4, partial(_explain, request, rankings, s))
        for s, x in best
    ]
    related = [hit.tool for hit in hits if hit.tool.related]
    if not related:
        return tuple(hits)
    shown = {hit.tool.name for hit in hits}
    for tool in related:
        for name in tool.related:
            slot = _visible_slot(request, name)
            if len(hits) < limit and slot is not None and name not in shown:
                shown.add(name)
                hits.append(Hit(tools[slot], 0.0, _constant_reason("related", words=(tool.name,))))
    return tuple(hits)


def _visible_slot(request: RankingRequest, name: str) -> int | None:
    slot = request.index.slot(name)
    return slot if slot is not None and request.allowed[slot] else None


def _constant_reason(
    arm: str, where: str = "", words: tuple[str, ...] = (), score: float = 0.0
) -> Callable[[], tuple[Reason]]:
    return lambda: (Reason(arm, where, words, score),)


def _explain(request: RankingRequest, rankings: Sequence[Ranking], slot: int) -> tuple[Reason, ...]:
    # The parts as they count in the sum, so that the reasons add up.
    parts = score_parts(request, rankings, np.array([slot], np.int32)).by_ranking
    return tuple(
        replace(reason, score=round(float(part[0]), 4))
        for ranking, part in zip(rankings, parts, strict=True)
        if (reason := ranking.explain(slot)) is not None
    )


def _next_names(
    request: RankingRequest, fused: FusedRanking, hits: Sequence[Hit]
) -> tuple[str, ...]:
    """The names after the hits: related tools first, then the next in order."""
    tools = request.index.shared.tools
    places: list[int] = fused.slots[len(hits) : len(hits) + MAX_NEAR].tolist()
    following = [tools[slot].name for slot in places]
    related = [n for h in hits for n in h.tool.related if _visible_slot(request, n) is not None]
    if related:
        shown = {hit.tool.name for hit in hits}
        following = list(dict.fromkeys(n for n in related + following if n not in shown))
    return tuple(following[:MAX_NEAR])


def _select_by_name(index: Index, query: Query, mask: Mask) -> QueryHits:
    """All tools of the given names, in the given order."""
    hits: dict[str, Hit] = {}
    missing: list[str] = []
    for name in query.select:
        # The exact name wins; without one, every tool with that name in another spelling; without
        # any, also none that is hidden, every tool with that alias.
        exact = index.slot(name)
        slots = [exact] if exact is not None and mask[exact] else _slots_by_name(index, name)
        tools = sorted((index.tool(s) for s in slots if mask[s]), key=lambda t: t.name)
        if not tools:
            missing.append(name)
        for tool in tools:
            reason = _constant_reason("name", "name", (name,), 1.0)
            hits.setdefault(tool.name, Hit(tool, 1.0, reason))
    notes = (note_missing_names(missing),) if missing else ()
    if query.is_cut and len(query.select) == MAX_NAMES:
        notes = (*notes, f"Only the first {MAX_NAMES:,} names were read.")
    found = tuple(hits.values())
    return QueryHits(found, confidence=float(bool(found)), notes=notes, is_selection=True)


def _slots_by_name(index: Index, name: str) -> list[int]:
    """The slots with this name in any spelling, or alias; too long a text is not looked up."""
    if len(name) > MAX_NAME_CHARS:
        return []
    return index.slots_by_name(name) or index.slots_by_alias(name)


def note_missing_names(missing: Sequence[str]) -> str:
    """Name the first missing tools, and count the others."""
    named = [
        name if len(name) <= _MAX_QUOTED_CHARS else f"{name[:_MAX_QUOTED_CHARS]}…"
        for name in missing[:_MAX_NAMED_MISSING]
    ]
    rest = len(missing) - _MAX_NAMED_MISSING
    more = f" and {rest:,} more" if rest > 0 else ""
    return f"{MISSING_NAMES_PREFIX}{', '.join(named)}{more}."


def _list_tools(index: Index, mask: Mask, limit: int) -> QueryHits:
    """List the tools that pass the filters, by name: the answer to a query of filters only."""
    tools = sorted((index.tool(s) for s in np.flatnonzero(mask).tolist()), key=lambda t: t.name)
    hits = tuple(Hit(t, 0.0, _constant_reason("filter")) for t in tools[:limit])
    near = tuple(t.name for t in tools[limit : limit + MAX_NEAR])
    return QueryHits(hits, confidence=float(bool(hits)), near=near)
