"""Answering one query over one snapshot: choose, rank, fuse, explain. Pure but for the embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from typing import NamedTuple

import numpy as np

from ..errors import EmbedderError
from .clauses import clauses
from .confidence import confidence, evidence, is_named, is_worded
from .hit import Evidence, Hit, Reason
from .index import Index
from .query import MOST_NAMES, MOST_QUERIES, Query
from .rankers.regex import Regex
from .ranking import Fused, Fusion, Mask, Ranker, Ranking, Request
from .scope import LONGEST_NAME, narrowed
from .spellings import Spellings
from .text import is_paired
from .typos import repair, unseen
from .values import Prepare, prepared

_NEAR = 8
_DEPTH = 100
_TOLD = 10
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Method:
    """How an engine ranks: its arms, how they become one, and what is done to requests before."""

    rankers: tuple[Ranker, ...]
    fusion: Fusion
    spellings: Spellings
    prepare: Prepare = prepared
    mends: bool = True


class Found(NamedTuple):
    """What was found, as `Results` has it."""

    hits: tuple[Hit, ...] = ()
    confidence: float = 0.0
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    evidence: Evidence | None = None
    is_selection: bool = False


def answer(method: Method, index: Index, query: Query, mask: Mask, *, limit: int) -> Found:
    """The hits for one query among what a caller may see."""
    if query.is_empty:
        return Found()
    mask = narrowed(index, query, mask)
    if query.select:
        return _selected(index, query, mask)
    if query.pattern is not None:
        request = Request(query, index, mask, limit=limit, depth=_depth(limit))
        found = _ranked(method, request, arms=(Regex(),))
        if found.hits or not query.is_guess:  # what matches is what was asked for
            return found._replace(confidence=float(bool(found.hits)))
    if not query.words:
        return _listed(index, mask, limit)
    if not query.name or is_paired(query.name):  # a lone word may be a name, but not a sentence
        words = method.prepare(query.words, partial(_is_seen, index, mask))
        query = query if words is query.words else query._replace(words=words)
    parts = clauses(query.words)
    read = repair(index, method.spellings if method.mends else None, parts, mask)
    notes: tuple[str, ...] = ()
    if read.slips:
        notes = (f"Read {', '.join(f'{w!r} as {r!r}' for w, r in read.slips.items())}.",)
        if not read.is_foreign:  # then what is strange in it tells an encoder more as it stands
            meant = read.mended(query.words)
            parts = [meant if part == query.words else read.mended(part) for part in parts]
            query = query._replace(words=meant)
    if query.is_cut:
        notes = (*notes, "The query was cut: describe the tool needed in a sentence.")
    said = read.terms, read.words, parts, read.needs
    request = Request(query, index, mask, *said, limit, _depth(limit))
    return _ranked(method, request, notes=notes)


def merged(found: Sequence[Found], *, limit: int) -> Found:
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
    if len(found) == MOST_QUERIES:
        notes[f"At most {MOST_QUERIES} queries are read at once."] = None
    return Found(
        hits=kept,
        is_selection=bool(found) and all(r.is_selection for r in found),
        confidence=min((r.confidence for r in found), default=0.0),
        near=tuple(near)[:_NEAR],
        notes=tuple(notes),
    )


def _is_seen(index: Index, mask: Mask, term: str) -> bool:
    """Whether a tool in the caller's sight has a word."""
    return not unseen(index, (term,), mask)


def _depth(limit: int) -> int:
    """How many candidates an arm offers: more where a caller wants more."""
    return max(_DEPTH, 3 * limit)


def _ranked(
    method: Method,
    request: Request,
    *,
    arms: Sequence[Ranker] | None = None,
    notes: tuple[str, ...] = (),
) -> Found:
    rankings: list[Ranking] = []
    for arm in arms or method.rankers:
        try:
            ranking = arm.rank(request)
        except EmbedderError as error:
            notes = (*notes, f"Searched without vectors: {error}")
            continue
        if ranking is not None:
            rankings.append(ranking)
    fused = _guarded(request, method.fusion(request, rankings))
    if not len(fused.slots):
        return Found(notes=notes)
    hits = _hits(request, rankings, fused)
    found = evidence(request, rankings, fused)
    sure = confidence(found) if is_worded(request) else 0.0
    return Found(
        hits=hits,
        confidence=1.0 if is_named(rankings, fused) else sure,
        near=_near(request, fused, hits),
        notes=notes,
        evidence=found,
    )


def _guarded(request: Request, fused: Fused) -> Fused:
    """Only what the caller may see, even if somebody's own ranker offers more."""
    is_seen = request.allowed.take(fused.slots)
    is_well = np.count_nonzero(is_seen) == len(is_seen)
    return fused if is_well else Fused(fused.slots[is_seen], fused.scores[is_seen])


def _hits(request: Request, rankings: Sequence[Ranking], fused: Fused) -> tuple[Hit, ...]:
    """The best, then what they say is related, as far as there is room."""
    tools, limit = request.index.shared.tools, request.limit
    best: zip[tuple[int, float]] = zip(
        fused.slots[:limit].tolist(), fused.scores[:limit].tolist(), strict=True
    )
    # `round` to a number of digits goes by way of a text, which takes twice as long
    hits = [Hit(tools[s], round(1e4 * x) / 1e4, partial(_why, rankings, s)) for s, x in best]
    related = [hit.tool for hit in hits if hit.tool.related]
    if not related:
        return tuple(hits)
    shown = {hit.tool.name for hit in hits}
    for tool in related:
        for name in tool.related:
            slot = _seen(request, name)
            if len(hits) < limit and slot is not None and name not in shown:
                shown.add(name)
                hits.append(Hit(tools[slot], 0.0, _because("related", words=(tool.name,))))
    return tuple(hits)


def _seen(request: Request, name: str) -> int | None:
    slot = request.index.slot(name)
    return slot if slot is not None and request.allowed[slot] else None


def _because(arm: str, where: str = "", words: tuple[str, ...] = ()) -> Callable[[], tuple[Reason]]:
    return lambda: (Reason(arm, where, words),)


def _why(rankings: Sequence[Ranking], slot: int) -> tuple[Reason, ...]:
    return tuple(reason for r in rankings if (reason := r.why(slot)) is not None)


def _near(request: Request, fused: Fused, hits: Sequence[Hit]) -> tuple[str, ...]:
    """What the hits call related, and the next in line."""
    tools = request.index.shared.tools
    places: list[int] = fused.slots[len(hits) : len(hits) + _NEAR].tolist()
    following = [tools[slot].name for slot in places]
    related = [n for h in hits for n in h.tool.related if _seen(request, n) is not None]
    if related:
        shown = {hit.tool.name for hit in hits}
        following = list(dict.fromkeys(n for n in related + following if n not in shown))
    return tuple(following[:_NEAR])


def _selected(index: Index, query: Query, mask: Mask) -> Found:
    """Tools asked for by name, all of them, in the order asked."""
    hits: dict[str, Hit] = {}
    lacking: list[str] = []
    for name in query.select:
        exact = index.slot(name)
        slots = [exact] if exact is not None and mask[exact] else _called(index, name)
        tools = sorted((index.tool(s) for s in slots if mask[s]), key=lambda t: t.name)
        if not tools:
            lacking.append(name)
        for tool in tools:
            hits.setdefault(tool.name, Hit(tool, 1.0, _because("name", "name", (name,))))
    notes = (_unnamed(lacking),) if lacking else ()
    if query.is_cut and len(query.select) == MOST_NAMES:
        notes = (*notes, f"Only the first {MOST_NAMES:,} names were read.")
    found = tuple(hits.values())
    return Found(found, confidence=float(bool(found)), notes=notes, is_selection=True)


def _called(index: Index, name: str) -> list[int]:
    """The slots of what is called so in any spelling; a text is not worth looking up as a name."""
    return index.named(name) if len(name) <= LONGEST_NAME else []


def _unnamed(lacking: Sequence[str]) -> str:
    """Which names no tool has; of many only the first, and how many more."""
    named = [name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…" for name in lacking[:_TOLD]]
    more = f" and {len(lacking) - _TOLD:,} more" if len(lacking) > _TOLD else ""
    return f"No tool is named {', '.join(named)}{more}."


def _listed(index: Index, mask: Mask, limit: int) -> Found:
    """A query of filters alone lists what they leave, by name."""
    tools = sorted((index.tool(s) for s in np.flatnonzero(mask).tolist()), key=lambda t: t.name)
    hits = tuple(Hit(t, 0.0, _because("filter")) for t in tools[:limit])
    near = tuple(t.name for t in tools[limit : limit + _NEAR])
    return Found(hits, confidence=float(bool(hits)), near=near)
