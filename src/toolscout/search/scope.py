"""Who may see what: allow rules and a query's own filters, as one mask over the index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import numpy as np

from ..catalog.names import normalised
from ..catalog.tool import Tool
from .index import Index
from .pattern import Haystack, Pattern
from .query import Query
from .ranking import Mask

Allow = Callable[[Tool], bool] | Collection[str]
"""What a caller may see: names, or a rule over tools that always answers the same."""


def allowed(index: Index, allow: Allow | None) -> Mask:
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


def narrowed(index: Index, query: Query, mask: Mask) -> Mask:
    """What the query's own filters leave of a mask."""
    if query.servers:
        mask = mask & _grouped(index.shared.servers, index.server, query.servers)
    if query.categories:
        mask = mask & _grouped(index.shared.categories, index.category, query.categories)
    for word in query.required:
        mask = mask & _having(index, word, mask)
    for word in query.excluded:
        mask = mask & ~_having(index, word, mask)
    return mask


def _grouped(known: dict[str, int], numbers: np.ndarray, wanted: Iterable[str]) -> Mask:
    names = {normalised(w) for w in wanted}
    chosen = [number for name, number in list(known.items()) if normalised(name) in names]
    return np.isin(numbers, np.array(chosen, np.int32))


def _having(index: Index, word: str, mask: Mask) -> Mask:
    """The slots whose name or description has a word, in any case."""
    slots = np.flatnonzero(mask)
    pattern = Pattern.literal(word)
    tools = (index.tool(s) for s in slots.tolist())
    found = Haystack.of((t.name, t.description) for t in tools).matching(pattern)
    having = np.zeros(index.size, np.bool_)
    having[slots[np.array(found, np.int64)]] = True
    return having
