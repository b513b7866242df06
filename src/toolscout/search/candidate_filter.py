"""Who may see what: allow rules and a query's own filters, as one mask over the index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from ..catalog.names import normalise_name
from ..catalog.sanitization import NAME_CAP
from ..catalog.tool import Tool
from .index import Index
from .query import Query
from .ranking import Mask

Allow = Callable[[Tool], bool] | Collection[str]
"""What a caller may see: names, or a rule over tools that always answers the same."""

MAX_TERM_CHARS = 200
"""How much of a required or excluded term is looked for."""

MAX_NAME_CHARS = 2 * NAME_CAP
"""A longer text names no tool, server or category, and takes long to bring into one spelling."""


def allow_mask(index: Index, allow: Allow | None) -> Mask:
    """The living slots that a rule lets through."""
    if allow is None:
        return index.alive
    mask = np.zeros(index.size, np.bool_)
    if callable(allow):
        chosen = [s for s in np.flatnonzero(index.alive).tolist() if allow(index.tool(s))]
    else:
        chosen = [s for n in allow if (s := index.slot(n)) is not None]
    mask[chosen] = True
    return mask


def apply_filters(index: Index, query: Query, mask: Mask) -> Mask:
    """What the query's own filters leave of a mask."""
    if query.servers:
        mask = mask & _group_mask(index.shared.servers, index.server, query.servers)
    if query.categories:
        mask = mask & _group_mask(index.shared.categories, index.category, query.categories)
    return _term_mask(index, query, mask) if query.required or query.excluded else mask


def _group_mask(known: dict[str, int], numbers: np.ndarray, wanted: Iterable[str]) -> Mask:
    names = set[str]().union(*(_name_spellings(w) for w in wanted if len(w) <= MAX_NAME_CHARS))
    chosen = [known[n] for n in list(known) if not names.isdisjoint(_name_spellings(n))]
    return np.isin(numbers, np.array(chosen, np.int32))


def _name_spellings(name: str) -> set[str]:
    """What a server or category may be called: in any case, in any case style."""
    return {normalise_name(name), normalise_name(name.casefold())} - {""} or {name}


def _term_mask(index: Index, query: Query, mask: Mask) -> Mask:
    """What has every required term in its name or description, and none of the excluded ones.

    The texts are put together once, however many terms there are to look for.
    """
    slots = np.flatnonzero(mask)
    texts = [_searchable_text(index.tool(slot)) for slot in slots.tolist()]
    is_kept = np.ones(len(texts), np.bool_)
    for term in query.required:
        is_kept &= _contains_term(texts, term)
    for term in query.excluded:
        is_kept &= ~_contains_term(texts, term)
    kept = np.zeros(index.size, np.bool_)
    kept[slots[is_kept]] = True
    return kept


def _searchable_text(tool: Tool) -> str:
    """What terms are looked for in: no term has the sign that parts its fields."""
    return f"{tool.name}\0{tool.description}".replace("\n", " ").casefold()


def _contains_term(texts: Sequence[str], term: str) -> Mask:
    wanted = term[:MAX_TERM_CHARS].casefold()
    return np.fromiter([wanted in text for text in texts], np.bool_, len(texts))
