"""Answering one query over one snapshot: choose, rank, fuse, explain. Pure but for the embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from typing import NamedTuple

import numpy as np

from ..errors import EmbedderError
from .analyzer import needs_bigrams
from .candidate_filter import MAX_NAME_CHARS, apply_filters
from .confidence import confidence, gather_evidence, has_words, is_exact_name
from .hit import Evidence, Hit, Reason
from .index import Index
from .preprocessing import QueryPreprocessor, prepare_query, split_clauses
from .query import MAX_NAMES, MAX_QUERIES, Query
from .rankers.regex import Regex
from .ranking import FusedRanking, Fusion, Mask, Ranker, Ranking, RankingRequest
from .spelling_index import SpellingIndex
from .typos import correct_typos, unknown_terms

_MAX_NEAR = 8
_MIN_CANDIDATES = 100
_MAX_NAMED_MISSING = 10
_MAX_QUOTED_CHARS = 80


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How an engine ranks: its arms, how they become one, and what is done to requests before."""

    rankers: tuple[Ranker, ...]
    fusion: Fusion
    spellings: SpellingIndex
    prepare: QueryPreprocessor = prepare_query
    corrects_typos: bool = True


class QueryHits(NamedTuple):
    """What was found, as `Results` has it."""

    hits: tuple[Hit, ...] = ()
    confidence: float = 0.0
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    evidence: Evidence | None = None
    is_selection: bool = False


def run_query(method: Pipeline, index: Index, query: Query, mask: Mask, *, limit: int) -> QueryHits:
    """The hits for one query among what a caller may see."""
    if query.is_empty:
        return QueryHits()
    mask = apply_filters(index, query, mask)
    if query.select:
        return _select_by_name(index, query, mask)
    if query.pattern is not None:
        request = RankingRequest(query, index, mask, limit=limit, depth=_candidate_count(limit))
        found = _rank_and_fuse(method, request, arms=(Regex(),))
        if found.hits or not query.is_guess:  # what matches is what was asked for
            return found._replace(confidence=float(bool(found.hits)))
    if not query.words:
        return _list_tools(index, mask, limit)
    if not query.name or needs_bigrams(query.name):  # a lone word may be a name, but not a sentence
        words = method.prepare(query.words, partial(_is_visible_term, index, mask))
        query = query if words is query.words else query._replace(words=words)
    parts = split_clauses(query.words)
    read = correct_typos(index, method.spellings if method.corrects_typos else None, parts, mask)
    notes: tuple[str, ...] = ()
    if read.corrections:
        notes = (f"Read {', '.join(f'{w!r} as {r!r}' for w, r in read.corrections.items())}.",)
        if not read.is_foreign:  # then what is strange in it tells an encoder more as it stands
            meant = read.apply_to(query.words)
            parts = [meant if part == query.words else read.apply_to(part) for part in parts]
            query = query._replace(words=meant)
    if query.is_cut:
        notes = (*notes, "The query was cut: describe the tool needed in a sentence.")
    said = read.terms, read.known_terms, parts, read.clause_terms
    request = RankingRequest(query, index, mask, *said, limit, _candidate_count(limit))
    return _rank_and_fuse(method, request, notes=notes)


def merge_results(found: Sequence[QueryHits], *, limit: int) -> QueryHits:
    """Several answers as one, taking turns, so that every query has its best hit near the top.

    What was selected by name is kept, whatever the limit.
    """
    if len(found) == 1:
        return found[0]
    hits: dict[str, Hit] = {}
    for hit in chain.from_iterable(zip_longest(*(r.hits for r in found))):
        if hit is not None:
            hits.setdefault(hit.name, hit)
    room = max(limit, len(found))
    selected = {hit.name for r in found if r.is_selection for hit in r.hits}
    kept = tuple(h for place, h in enumerate(hits.values()) if place < room or h.name in selected)
    shown = {h.name for h in kept}
    following = chain(hits, *(r.near for r in found))
    near = dict.fromkeys(n for n in following if n not in shown)
    notes = dict.fromkeys(n for r in found for n in r.notes)
    if len(found) == MAX_QUERIES:
        notes[f"At most {MAX_QUERIES} queries are read at once."] = None
    return QueryHits(
        hits=kept,
        is_selection=bool(found) and all(r.is_selection for r in found),
        confidence=min((r.confidence for r in found), default=0.0),
        near=tuple(near)[:_MAX_NEAR],
        notes=tuple(notes),
    )


def _is_visible_term(index: Index, mask: Mask, term: str) -> bool:
    """Whether a tool in the caller's sight has a word."""
    return not unknown_terms(index, (term,), mask)


def _candidate_count(limit: int) -> int:
    """How many candidates an arm offers: more where a caller wants more."""
    return max(_MIN_CANDIDATES, 3 * limit)


def _rank_and_fuse(
    method: Pipeline,
    request: RankingRequest,
    *,
    arms: Sequence[Ranker] | None = None,
    notes: tuple[str, ...] = (),
) -> QueryHits:
    rankings: list[Ranking] = []
    for arm in arms or method.rankers:
        try:
            ranking = arm.rank(request)
        except EmbedderError as error:
            notes = (*notes, f"Searched without vectors: {error}")
            continue
        if ranking is not None:
            rankings.append(ranking)
    fused = _drop_forbidden(request, method.fusion(request, rankings))
    if not len(fused.slots):
        return QueryHits(notes=notes)
    hits = _make_hits(request, rankings, fused)
    found = gather_evidence(request, rankings, fused)
    sure = confidence(found) if has_words(request) else 0.0
    return QueryHits(
        hits=hits,
        confidence=1.0 if is_exact_name(rankings, fused) else sure,
        near=_next_names(request, fused, hits),
        notes=notes,
        evidence=found,
    )


def _drop_forbidden(request: RankingRequest, fused: FusedRanking) -> FusedRanking:
    """Only what the caller may see, even if somebody's own ranker offers more."""
    is_seen = request.allowed.take(fused.slots)
    is_well = np.count_nonzero(is_seen) == len(is_seen)
    return fused if is_well else FusedRanking(fused.slots[is_seen], fused.scores[is_seen])


def _make_hits(
    request: RankingRequest, rankings: Sequence[Ranking], fused: FusedRanking
) -> tuple[Hit, ...]:
    """The best, then what they say is related, as far as there is room."""
    tools, limit = request.index.shared.tools, request.limit
    best: zip[tuple[int, float]] = zip(
        fused.slots[:limit].tolist(), fused.scores[:limit].tolist(), strict=True
    )
    # `round` to a number of digits goes by way of a text, which takes twice as long
    hits = [Hit(tools[s], round(1e4 * x) / 1e4, partial(_explain, rankings, s)) for s, x in best]
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
    arm: str, where: str = "", words: tuple[str, ...] = ()
) -> Callable[[], tuple[Reason]]:
    return lambda: (Reason(arm, where, words),)


def _explain(rankings: Sequence[Ranking], slot: int) -> tuple[Reason, ...]:
    return tuple(reason for r in rankings if (reason := r.explain(slot)) is not None)


def _next_names(
    request: RankingRequest, fused: FusedRanking, hits: Sequence[Hit]
) -> tuple[str, ...]:
    """What the hits call related, and the next in line."""
    tools = request.index.shared.tools
    places: list[int] = fused.slots[len(hits) : len(hits) + _MAX_NEAR].tolist()
    following = [tools[slot].name for slot in places]
    related = [n for h in hits for n in h.tool.related if _visible_slot(request, n) is not None]
    if related:
        shown = {hit.tool.name for hit in hits}
        following = list(dict.fromkeys(n for n in related + following if n not in shown))
    return tuple(following[:_MAX_NEAR])


def _select_by_name(index: Index, query: Query, mask: Mask) -> QueryHits:
    """Tools asked for by name, all of them, in the order asked."""
    hits: dict[str, Hit] = {}
    lacking: list[str] = []
    for name in query.select:
        exact = index.slot(name)
        slots = [exact] if exact is not None and mask[exact] else _slots_by_name(index, name)
        tools = sorted((index.tool(s) for s in slots if mask[s]), key=lambda t: t.name)
        if not tools:
            lacking.append(name)
        for tool in tools:
            hits.setdefault(tool.name, Hit(tool, 1.0, _constant_reason("name", "name", (name,))))
    notes = (_note_missing_names(lacking),) if lacking else ()
    if query.is_cut and len(query.select) == MAX_NAMES:
        notes = (*notes, f"Only the first {MAX_NAMES:,} names were read.")
    found = tuple(hits.values())
    return QueryHits(found, confidence=float(bool(found)), notes=notes, is_selection=True)


def _slots_by_name(index: Index, name: str) -> list[int]:
    """The slots of what is called so in any spelling; a text is not worth looking up as a name."""
    return index.slots_by_name(name) if len(name) <= MAX_NAME_CHARS else []


def _note_missing_names(lacking: Sequence[str]) -> str:
    """Which names no tool has; of many only the first, and how many more."""
    named = [
        name if len(name) <= _MAX_QUOTED_CHARS else f"{name[:_MAX_QUOTED_CHARS]}…"
        for name in lacking[:_MAX_NAMED_MISSING]
    ]
    more = (
        f" and {len(lacking) - _MAX_NAMED_MISSING:,} more"
        if len(lacking) > _MAX_NAMED_MISSING
        else ""
    )
    return f"No tool is named {', '.join(named)}{more}."


def _list_tools(index: Index, mask: Mask, limit: int) -> QueryHits:
    """A query of filters alone lists what they leave, by name."""
    tools = sorted((index.tool(s) for s in np.flatnonzero(mask).tolist()), key=lambda t: t.name)
    hits = tuple(Hit(t, 0.0, _constant_reason("filter")) for t in tools[:limit])
    near = tuple(t.name for t in tools[limit : limit + _MAX_NEAR])
    return QueryHits(hits, confidence=float(bool(hits)), near=near)
