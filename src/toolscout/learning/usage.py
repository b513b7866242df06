"""Lift the tools that were called after similar requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

import numpy as np

from ..catalog.tool import Tool
from ..embedders.arrays import Floats, Ints, Mask
from ..embedders.embedder import Embedder
from ..search.engine import Engine
from ..search.hit import Reason
from ..search.rankers.dense import DenseRanking
from ..search.ranking import FusedRanking, Fusion, Ranking, RankingRequest

UsageMode = Literal["on", "off", "shadow"]
"""Whether past use counts, does not, or is only compared with the order without it."""

SIMILAR = "used for similar requests"
FOLLOWING = "often used next"
UNRELATED, SIMILAR_ENOUGH = 0.5, 0.9
"""How similar a request must be to lift a tool at all, and in full.

In parts of the typical cosine between the tool's vector and the requests that it was used for;
docs/decisions/learning.md has the figures.
"""
MAX_CANDIDATES = 50
"""How many tools past use may propose that no other ranker has found."""

_TINY = 1e-9
_MAX_TRACES = 512
_MAX_INDEXES = 16
# Reading all learned vectors is limited by memory bandwidth. Beyond this many, their projections on
# the main directions choose which of them are compared; the others are not lifted.
_EXACT_UP_TO = 128
_DIRECTIONS = 24
_MAX_COMPARED = 2 * MAX_CANDIDATES

_called: ContextVar[tuple[str, ...]] = ContextVar("called", default=())


@contextmanager
def after_calls(names: Sequence[str]) -> Generator[None]:
    """Searches in the block come from a conversation that has called these tools."""
    token = _called.set(tuple(names))
    try:
        yield
    finally:
        _called.reset(token)


@dataclass(frozen=True, slots=True, eq=False)
class UsageWeights:
    """What was learned for the tools of a catalog: a vector for each of `tools`.

    `typical` has the cosines of these vectors with the requests that the tools were used for.
    `following` has, for the name of a tool, the tools that are used after it and their lifts.
    """

    tools: tuple[Tool, ...]
    rows: Floats
    typical: Floats
    following: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict[str, Mapping[str, float]]
    )
    basis: Floats | None = None
    lead: Floats | None = None

    @classmethod
    def of(
        cls,
        tools: Sequence[Tool],
        rows: Floats,
        typical: Floats,
        following: Mapping[str, Mapping[str, float]],
    ) -> UsageWeights:
        """The weights, with what a fast scan needs if they are many."""
        if len(rows) <= _EXACT_UP_TO:
            return cls(tuple(tools), rows, typical, following)
        _, _, directions = np.linalg.svd(rows, full_matrices=False)
        basis = np.ascontiguousarray(directions[:_DIRECTIONS].T)
        return cls(tuple(tools), rows, typical, following, basis, rows @ basis)

    def restrict(self, places: Ints) -> UsageWeights:
        """The weights of some tools, as if nothing were known of the others."""
        if len(places) == len(self.tools):
            return self
        chosen: list[int] = places.tolist()
        tools = [self.tools[p] for p in chosen]
        return UsageWeights.of(tools, self.rows[places], self.typical[places], self.following)


@dataclass(frozen=True, slots=True)
class _IndexedWeights:
    """The weights of the tools of one index, and the slots of these tools."""

    source: UsageWeights
    alive: Mask
    weights: UsageWeights
    slots: Ints


@dataclass(frozen=True, slots=True)
class SearchTrace:
    """The best tools of a search without past use, and their order with it."""

    tools: Sequence[Tool]
    slots: Ints
    scores: Floats
    learned: Ints

    @property
    def base_scores(self) -> dict[str, float]:
        """The scores without past use by name, best first."""
        pairs = sorted(zip((-self.scores).tolist(), self._names(self.slots), strict=True))
        return {name: -score for score, name in pairs}

    @property
    def learned_names(self) -> tuple[str, ...]:
        """The names in the order with past use."""
        return self._names(self.learned)

    def _names(self, slots: Ints) -> tuple[str, ...]:
        places: list[int] = slots.tolist()
        return tuple(self.tools[slot].name for slot in places)


@dataclass(frozen=True, slots=True)
class UsageRanking:
    """The lifts of all slots for one request; 0 for a tool that was never used."""

    similar: Floats
    following: Floats | None
    candidates: Ints
    trust: float = 1.0
    arm: str = SIMILAR

    def scores_at(self, slots: Ints) -> Floats:
        """The lifts of some slots."""
        lifts = self.similar[slots]
        return lifts if self.following is None else lifts + self.following[slots]

    def explain(self, slot: int) -> Reason | None:
        """Why a tool is lifted, if it is."""
        similar = float(self.similar[slot])
        following = 0.0 if self.following is None else float(self.following[slot])
        if similar + following <= 0:
            return None
        return Reason(SIMILAR if similar >= following else FOLLOWING, score=similar + following)


class UsageLift:
    """Lifts tools by learned vectors, which a learner replaces in `weights`.

    Scores are never lowered, so a tool that is never used loses only what others gain. In shadow
    mode the order stays the same, and traces have the one that use would give.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.weights: UsageWeights | None = None
        self.mode: UsageMode = "off"
        # The last used first. Restricted callers have indexes of their own.
        self._indexed: tuple[_IndexedWeights, ...] = ()
        self._traces: OrderedDict[bytes, SearchTrace] = OrderedDict()
        self._lock = Lock()

    def fuse(
        self, request: RankingRequest, rankings: Sequence[Ranking], fusion: Fusion
    ) -> tuple[Sequence[Ranking], FusedRanking]:
        """Fuse rankings with past use, and record how that changes the order."""
        vector = self._find_vector(rankings)
        if self.mode == "off" or vector is None:
            return rankings, fusion(request, rankings)
        usage = self._rank(request, vector)
        lifted = rankings if usage is None else (*rankings, usage)
        used = lifted if self.mode == "on" else rankings
        fused = learned = fusion(request, used)
        scores = fused.scores
        if usage is not None and used is lifted:
            scores = scores - usage.scores_at(fused.slots)
        elif usage is not None:
            learned = fusion(request, lifted)
        tools = request.index.shared.tools
        self._add_trace(vector, SearchTrace(tools, fused.slots, scores, learned.slots))
        return used, fused

    def _find_vector(self, rankings: Sequence[Ranking]) -> Floats | None:
        """The vector of the request, if a ranker of the same embedder took part."""
        for ranking in rankings:
            if isinstance(ranking, DenseRanking) and ranking.embedder == self.embedder.id:
                return ranking.query_vector.values
        return None

    def find_trace(self, vector: bytes) -> SearchTrace | None:
        """The last search with this vector, in half precision."""
        with self._lock:
            return self._traces.get(vector)

    def _add_trace(self, vector: Floats, trace: SearchTrace) -> None:
        key = vector.astype(np.float16).tobytes()
        with self._lock:
            self._traces[key] = trace
            self._traces.move_to_end(key)
            if len(self._traces) > _MAX_TRACES:
                self._traces.popitem(last=False)

    def _rank(self, request: RankingRequest, vector: Floats) -> UsageRanking | None:
        all_weights, allowed = self.weights, request.allowed
        if all_weights is None:
            return None
        # Only tools of this index take part: one that a caller may not see must not decide which
        # others are lifted.
        known = self._index_weights(all_weights, request)
        weights, slots = known.weights, known.slots
        similar = np.zeros(request.index.size, np.float32)
        near = _nearest(weights, allowed[slots], vector)
        similar[slots[near]] = compute_lifts(weights.rows[near], weights.typical[near], vector)
        following = self._following(weights, request)
        lifts = similar if following is None else similar + following * allowed
        best = float(lifts.max(initial=0.0))
        if best <= 0:
            return None
        # A small lift moves a tool that another ranker has found, but need not propose one.
        lifted = np.flatnonzero(lifts > best / 4).astype(np.int32)
        candidates = request.top_slots(lifted, lifts[lifted], MAX_CANDIDATES)
        return UsageRanking(similar, following, candidates)

    def _index_weights(self, weights: UsageWeights, request: RankingRequest) -> _IndexedWeights:
        """What was learned for the tools of this index."""
        # `alive` is replaced whenever tools change, and never changed itself.
        alive = request.index.alive
        for known in self._indexed:
            if known.source is weights and known.alive is alive:
                return known
        slots = np.array([request.index.slot_of(t) for t in weights.tools], np.int32)
        places = np.flatnonzero(slots >= 0).astype(np.int32)
        new = _IndexedWeights(weights, alive, weights.restrict(places), slots[places])
        current = [known for known in self._indexed if known.source is weights]
        self._indexed = (new, *current[: _MAX_INDEXES - 1])
        return new

    def _following(self, weights: UsageWeights, request: RankingRequest) -> Floats | None:
        """The lifts of tools that are used after those that this conversation has called."""
        lifts: Floats | None = None
        for name in _called.get():
            for other, lift in weights.following.get(name, {}).items():
                slot = request.index.slot(other)
                if slot is not None:
                    lifts = np.zeros(request.index.size, np.float32) if lifts is None else lifts
                    lifts[slot] = max(lifts[slot], lift)
        return lifts


def compute_lifts(rows: Floats, typical: Floats, vector: Floats) -> Floats:
    """How far learned vectors lift their tools for a request.

    In full only where the request is as similar as those that a tool was used for; else every tool
    of a domain that was ever used would be lifted above those that were not.
    """
    lifts = np.maximum(rows @ vector, 0)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * typical
    similarity = lifts / np.maximum(lengths, _TINY)
    share = (similarity - UNRELATED) / (SIMILAR_ENOUGH - UNRELATED)
    return lifts * share.clip(0, 1)


def _nearest(weights: UsageWeights, visible: Mask, vector: Floats) -> Ints:
    """The rows of visible tools to compare: all if they are few, else those that look similar."""
    if weights.basis is None or weights.lead is None:
        return np.flatnonzero(visible).astype(np.int32)
    scores = weights.lead @ (vector @ weights.basis) * visible
    near = np.flatnonzero(scores > scores.max() / 4)
    if len(near) > _MAX_COMPARED:
        near = np.argpartition(scores, -_MAX_COMPARED)[-_MAX_COMPARED:]
    return near.astype(np.int32)


def attach_usage(engine: Engine) -> UsageLift | None:
    """The lift of an engine, which gets one if it has none; None without an embedder."""
    if engine.lift is None and engine.embedders:
        engine.lift = UsageLift(engine.embedders[0])
    return engine.lift if isinstance(engine.lift, UsageLift) else None
