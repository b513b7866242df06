"""Rank by past use: lift the tools that were called after similar requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock, local
from typing import Literal

import numpy as np

from ...catalog.tool import Tool
from ..arrays import Floats, Ints, Mask
from ..embedders.embedder import Embedder
from ..hit import Reason
from ..ranking import FusedRanking, Fusion, Ranking, RankingRequest
from .dense import Dense, DenseRanking

UsageMode = Literal["on", "off", "shadow"]
"""Whether past use counts, does not, or is only compared with the order without it."""

SIMILAR = "used for similar requests"
FOLLOWING = "often used next"
MAX_CANDIDATES = 50
"""How many tools past use may propose that no other ranker has found."""

_MAX_TRACES = 512
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

    `following` has, for the name of a tool, the tools that are used after it and their lifts.
    """

    tools: tuple[Tool, ...]
    rows: Floats
    following: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict[str, Mapping[str, float]]
    )
    basis: Floats | None = None
    lead: Floats | None = None

    @classmethod
    def of(
        cls, tools: Sequence[Tool], rows: Floats, following: Mapping[str, Mapping[str, float]]
    ) -> UsageWeights:
        """The weights, with what a fast scan needs if they are many."""
        if len(rows) <= _EXACT_UP_TO:
            return cls(tuple(tools), rows, following)
        _, _, directions = np.linalg.svd(rows, full_matrices=False)
        basis = np.ascontiguousarray(directions[:_DIRECTIONS].T)
        return cls(tuple(tools), rows, following, basis, rows @ basis)


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


class _Memo(local):
    """What the rankers of one search pass on to each other, in the thread of that search."""

    request: RankingRequest | None = None
    vector: Floats | None = None
    ranking: UsageRanking | None = None


class UsageRanker:
    """Lifts tools by learned vectors, which a learner replaces in `weights`.

    Scores are never lowered, so a tool that is never used loses only what others gain. In shadow
    mode the order stays the same, and traces have the one that use would give.
    """

    # In `search_arm` events and in metrics, so it stays even if the class is renamed.
    event_name = "usage"

    def __init__(self, dense: Dense) -> None:
        self.dense = WatchedDense(dense, self)
        self.weights: UsageWeights | None = None
        self.mode: UsageMode = "off"
        self._memo = _Memo()
        self._slots: tuple[UsageWeights, Mask, Ints] | None = None
        self._traces: OrderedDict[bytes, SearchTrace] = OrderedDict()
        self._lock = Lock()

    @property
    def embedder(self) -> Embedder:
        """The embedder whose vectors it compares, as the dense ranker has it."""
        return self.dense.wrapped.embedder

    def rank(self, request: RankingRequest) -> Ranking | None:
        """Score the tools that were used before; None if there is nothing to compare with."""
        memo = self._memo
        memo.ranking = None
        if self.mode != "off" and memo.request is request and memo.vector is not None:
            memo.ranking = self._rank(request, memo.vector)
        return memo.ranking if self.mode == "on" else None

    def watch(self, request: RankingRequest, vector: Floats | None) -> None:
        """Take over the vector of a request from the dense ranker."""
        self._memo.request, self._memo.vector = request, vector

    def trace(self, fusion: Fusion) -> Fusion:
        """The same fusion, which also records how past use changes the order."""

        def fuse(request: RankingRequest, rankings: Sequence[Ranking]) -> FusedRanking:
            memo = self._memo
            fused = fusion(request, rankings)
            if self.mode == "off" or memo.request is not request or memo.vector is None:
                return fused
            learned, usage = fused, memo.ranking
            scores = fused.scores
            if usage is not None and self.mode == "shadow":
                learned = fusion(request, [*rankings, usage])
            elif usage is not None:
                scores = scores - usage.scores_at(fused.slots)
            tools = request.index.shared.tools
            self._add_trace(memo.vector, SearchTrace(tools, fused.slots, scores, learned.slots))
            memo.request = memo.vector = memo.ranking = None
            return fused

        return fuse

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
        weights, allowed = self.weights, request.allowed
        if weights is None:
            return None
        slots = self._find_slots(weights, request)
        # The last place is for tools that are gone, whose slot is -1.
        similar = np.zeros(request.index.size + 1, np.float32)
        # Only visible tools take part: a hidden one must not decide which others are lifted.
        near = _nearest(weights, allowed[slots] & (slots >= 0), vector)
        similar[slots[near]] = np.maximum(weights.rows[near] @ vector, 0)
        following = self._following(weights, request)
        lifts = similar[:-1] if following is None else similar[:-1] + following * allowed
        best = float(lifts.max(initial=0.0))
        if best <= 0:
            return None
        # A small lift moves a tool that another ranker has found, but need not propose one.
        lifted = np.flatnonzero(lifts > best / 4).astype(np.int32)
        candidates = request.top_slots(lifted, lifts[lifted], MAX_CANDIDATES)
        return UsageRanking(similar, following, candidates)

    def _find_slots(self, weights: UsageWeights, request: RankingRequest) -> Ints:
        """The slot of each tool with a vector; -1 for one that the index does not have."""
        # `alive` is replaced whenever tools change, and never changed itself.
        alive, known = request.index.alive, self._slots
        if known is None or known[0] is not weights or known[1] is not alive:
            slots = np.array([request.index.slot_of(t) for t in weights.tools], np.int32)
            self._slots = known = weights, alive, slots
        return known[2]

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


def _nearest(weights: UsageWeights, visible: Mask, vector: Floats) -> Ints:
    """The rows of visible tools to compare: all if they are few, else those that look similar."""
    if weights.basis is None or weights.lead is None:
        return np.flatnonzero(visible).astype(np.int32)
    scores = weights.lead @ (vector @ weights.basis) * visible
    near = np.flatnonzero(scores > scores.max() / 4)
    if len(near) > _MAX_COMPARED:
        near = np.argpartition(scores, -_MAX_COMPARED)[-_MAX_COMPARED:]
    return near.astype(np.int32)


class WatchedDense:
    """A dense ranker that passes the vector of each request on to a usage ranker."""

    def __init__(self, dense: Dense, usage: UsageRanker) -> None:
        self.wrapped = dense
        self._usage = usage
        self.event_name = dense.event_name

    def rank(self, request: RankingRequest) -> DenseRanking | None:
        """The ranking of the dense ranker."""
        self._usage.watch(request, None)
        ranking = self.wrapped.rank(request)
        if ranking is not None:
            self._usage.watch(request, ranking.query_vector.values)
        return ranking
