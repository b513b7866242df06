"""The contract of search (request, ranker, ranking, fusion), and which tools take part in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Literal, NamedTuple, Protocol, TypeGuard

import numpy as np

from ..catalog.filters import describe_unknown_owners
from ..catalog.sanitization import NAME_CAP
from ..catalog.tool import Tool, name_spellings
from ..embedders.arrays import Floats, Ints, Mask
from .hit import Reason
from .index import Index
from .lexicon import Term
from .query import Query

# BLAS sums in another order depending on where a row stands in a matrix, so the similarities of two
# equal texts can differ by about this much.
_NOISE = np.float32(1e-6)


def check_slots(slots: Ints, size: int) -> None:
    """Refuse slots that do not exist, which a custom ranker may return."""
    bad = slots[(slots < 0) | (slots >= size)]
    if len(bad):
        raise IndexError(f"A ranker offered slot {bad[0]}, but there are only 0 to {size - 1}.")


@dataclass(frozen=True, slots=True)
class RankingRequest:
    """A query over one snapshot of the index, for one caller.

    `allowed` marks the slots that the caller may see; a ranker never returns another one. `terms`
    are the index terms of the query, typos corrected. `known_terms` are those that a visible tool
    has, with their postings. `clause_terms` are the terms of each of the `clauses`. `limit` is the
    number of hits wanted, `depth` the number of candidates that a ranker should return.
    `is_readable` is false if no embedder knows the language of the query.
    """

    query: Query
    index: Index
    allowed: Mask
    terms: Sequence[str] = ()
    known_terms: Sequence[Term] = ()
    clauses: Sequence[str] = ()
    clause_terms: Sequence[Sequence[str]] = ()
    limit: int = 5
    depth: int = 300
    is_readable: bool = True

    def find_terms(self, texts: Iterable[str]) -> list[Term]:
        """Look up terms; those that no visible tool has are left out."""
        return self.index.find_terms(texts, self.allowed)

    def top_slots(self, slots: Ints, scores: Floats, count: int) -> Ints:
        """The `count` best slots, in no particular order.

        Ties at the end are broken by name, so the order in which tools were added has no effect.
        """
        if len(slots) <= count:
            return slots
        ordered = scores.copy()
        ordered.partition(len(scores) - count)
        last = ordered[len(scores) - count]
        is_above = scores > last + _NOISE
        tied: list[int] = slots[(scores >= last - _NOISE) ^ is_above].tolist()
        above = slots[is_above]
        room = count - len(above)
        if len(tied) > room:
            tied = nsmallest(room, tied, key=lambda slot: self.index.tool(slot).name)
        return np.concatenate([above, np.array(tied, np.int32)])


class Ranking(Protocol):
    """The scores that one ranker gives to the tools for one request."""

    @property
    def arm(self) -> str:
        """The ranker's name, as the reasons of hits show it."""
        ...

    @property
    def candidates(self) -> Ints:
        """The slots that this ranker proposes, in no particular order."""
        ...

    @property
    def trust(self) -> float:
        """The weight of this ranking in the sum; low where the ranker cannot judge the query."""
        ...

    def scores_at(self, slots: Ints) -> Floats:
        """Z-scores (standard deviations above the catalog's mean) of any slots."""
        ...

    def explain(self, slot: int) -> Reason | None:
        """Why this ranker would return a slot, if it would."""
        ...


class ClauseRanking(Protocol):
    """A ranking that also scores each clause of a request separately."""

    def clause_scores(self, slots: Ints) -> Floats:
        """Z-scores times trust, a column per slot: a row for the whole, then one per clause."""
        ...


def has_clause_scores(ranking: Ranking) -> TypeGuard[ClauseRanking]:
    """Whether a ranking scores clauses separately."""
    return hasattr(ranking, "clause_scores")


Arms = Literal["all", "words", "vectors"]
"""Which rankers take part in a search: all, those without an embedder, or those with one."""


def unwrap(ranker: Ranker) -> Ranker:
    """The ranker inside a wrapper, which names it in its attribute `wrapped`."""
    inner: Ranker | None = getattr(ranker, "wrapped", None)
    return ranker if inner is None else unwrap(inner)


def select_rankers(rankers: Sequence[Ranker], arms: Arms) -> tuple[Ranker, ...]:
    """The rankers that take part in a search."""
    wants_embedder = arms == "vectors"
    return tuple(
        r for r in rankers if arms == "all" or hasattr(unwrap(r), "embedder") == wants_embedder
    )


class Ranker(Protocol):
    """One way to rank tools, such as BM25F or an embedder."""

    def rank(self, request: RankingRequest) -> Ranking | None:
        """Rank the tools for a request; None if this ranker has nothing to contribute."""
        ...


class FusedRanking(NamedTuple):
    """Slots, best first, and their scores."""

    slots: Ints
    scores: Floats


Fusion = Callable[[RankingRequest, Sequence[Ranking]], FusedRanking]
"""Combines several rankings into one order."""


class Lift(Protocol):
    """Lifts tools by what earlier searches led to; `learning` has one."""

    def fuse(
        self, request: RankingRequest, rankings: Sequence[Ranking], fusion: Fusion
    ) -> tuple[Sequence[Ranking], FusedRanking]:
        """Fuse rankings and perhaps one more; also returns those that took part."""
        ...


Allow = Callable[[Tool], bool] | Collection[str]
"""Which tools a caller may see: their names, or a predicate that is stable for a given tool."""

MAX_TERM_CHARS = 200
"""Longer required or excluded terms are cut to this length."""

MAX_NAME_CHARS = 2 * NAME_CAP
"""A longer text cannot name a tool, server or category, and would be slow to normalise."""


def allow_mask(index: Index, allow: Allow | None) -> Mask:
    """The live slots that a rule allows."""
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
    """Narrow a mask by the filters in the query: server, category, required and excluded terms."""
    if query.servers:
        mask = mask & _group_mask(index.shared.servers, index.server, query.servers)
    if query.categories:
        mask = mask & _group_mask(index.shared.categories, index.category, query.categories)
    return _term_mask(index, query, mask) if query.required or query.excluded else mask


def note_unknown_filters(index: Index, query: Query, mask: Mask) -> tuple[str, ...]:
    """One note for each server and category of the query that no tool of the mask has."""
    if not (query.servers or query.categories):
        return ()
    servers = _names_in(index.shared.servers, index.server[mask])
    categories = _names_in(index.shared.categories, index.category[mask])
    notes = list(describe_unknown_owners(query.servers, servers, kind="server"))
    notes += describe_unknown_owners(query.categories, categories, kind="category")
    return tuple(notes[:3])


def _names_in(known: dict[str, int], numbers: Ints) -> list[str]:
    used = set(np.unique(numbers).tolist())
    return [name for name in list(known) if known[name] in used]


def _group_mask(known: dict[str, int], numbers: Ints, wanted: Iterable[str]) -> Mask:
    names = set[str]().union(*(name_spellings(w) for w in wanted if len(w) <= MAX_NAME_CHARS))
    # list(): an update may add servers from another thread during the loop.
    chosen = [known[n] for n in list(known) if not names.isdisjoint(name_spellings(n))]
    return np.isin(numbers, np.array(chosen, np.int32))


def _term_mask(index: Index, query: Query, mask: Mask) -> Mask:
    """The slots with every required term in name or description, and no excluded one."""
    slots = np.flatnonzero(mask)
    # The texts are built once, however many terms there are.
    texts = [_searchable_text(index.tool(slot)) for slot in slots.tolist()]
    is_match = np.ones(len(texts), np.bool_)
    for term in query.required:
        is_match &= _contains_term(texts, term)
    for term in query.excluded:
        is_match &= ~_contains_term(texts, term)
    narrowed = np.zeros(index.size, np.bool_)
    narrowed[slots[is_match]] = True
    return narrowed


def _searchable_text(tool: Tool) -> str:
    # A NUL cannot occur in a term, so no match spans name and description.
    return f"{tool.name}\0{tool.description}".replace("\n", " ").casefold()


def _contains_term(texts: Sequence[str], term: str) -> Mask:
    wanted = term[:MAX_TERM_CHARS].casefold()
    return np.fromiter([wanted in text for text in texts], np.bool_, len(texts))
