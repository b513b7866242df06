"""Training: the learned vectors and the graph of tools used together, from observations alone.

Nothing else is stored, so merging, forgetting and erasing are changes of the observations.
docs/decisions/learning.md has the figures behind every constant.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, permutations, zip_longest

import numpy as np

from ..embedders.arrays import Doubles, Floats, Ints
from .observation import Observation, by_age

RATE = 1.0
PASSES = 2
MAX_NORM = 6.0
# What only one of several principals has used may be lifted this far and no further.
MAX_NORM_ALONE = 1.5
# Requests of one principal with at least this cosine count as one for a tool.
SAME_REQUEST = 0.9
# How many requests count for a tool in all, and of one of several principals, unless the others
# have as many.
MAX_PER_TOOL = 32
MAX_PER_PRINCIPAL = 4
# After so many later observations, or days, an observation counts half.
HALF_LIFE_CALLS = 4_096.0
HALF_LIFE_DAYS = 90.0
MIN_WEIGHT = 1 / 16
# A longer pause counts as this long, so that a clock that jumps ahead erases nothing.
_MAX_PAUSE_DAYS = 7.0
_SECONDS_PER_DAY = 86_400.0
_TINY = 1e-9
# The graph: the lift of a tool that is always used next, a prior count, and how many requests one
# principal may contribute for a tool.
GRAPH_LIFT = 6.0
_GRAPH_PRIOR = 3.0
_MAX_TURNS_PER_PRINCIPAL = 5


@dataclass(frozen=True, slots=True)
class LearnedModel:
    """Everything learned: a vector for each key, and the lifts of keys used after another.

    `typical` has the median cosine between each vector and the requests that its key was used for.
    """

    keys: tuple[str, ...] = ()
    rows: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    typical: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    following: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict[str, Mapping[str, float]]
    )


def train(observations: Iterable[Observation]) -> LearnedModel:
    """Learn from observations; the same ones in any order give the same result."""
    ordered = sorted(observations, key=by_age)
    kept = select_calls(ordered)
    users = _principals_by_tool(kept)
    if not users:
        return LearnedModel()
    is_alone = len({row.principal for row, _ in kept}) == 1
    keys = tuple(sorted(users))
    caps = [MAX_NORM if is_alone or len(users[key]) > 1 else MAX_NORM_ALONE for key in keys]
    places = {key: place for place, key in enumerate(keys)}
    weights = dict(zip((row.id for row in ordered), age_weights(ordered), strict=True))
    lessons = [_Lesson.of(row, called, places, weights[row.id]) for row, called in kept]
    rows = _descend(lessons, np.array(caps, np.float32))
    typical = _typical_cosines(keys, rows, kept)
    return LearnedModel(keys, rows, typical, _build_graph(ordered, is_alone=is_alone))


def age_weights(ordered: Sequence[Observation]) -> list[float]:
    """What each observation still counts, by the later ones and the days since."""
    # By the pauses between observations and not by the clock: a clock that was set wrong for a
    # while then adds at most two pauses.
    weights: list[float] = []
    days = 0.0
    later = [*ordered[1:], *ordered[-1:]]
    for calls, (row, following) in enumerate(zip(reversed(ordered), reversed(later), strict=True)):
        pause = (following.time - row.time) / _SECONDS_PER_DAY
        days += min(max(pause, 0.0), _MAX_PAUSE_DAYS)
        weights.append(0.5 ** (calls / HALF_LIFE_CALLS + days / HALF_LIFE_DAYS))
    return weights[::-1]


def select_calls(ordered: Sequence[Observation]) -> list[tuple[Observation, frozenset[str]]]:
    """The observations that count, each with the called tools that it counts for.

    For a tool, one principal counts once for similar requests, and the newest requests of all
    principals count in turn, so one that floods the buffer crowds out only itself.
    """
    is_alone = len({row.principal for row in ordered}) == 1
    by_tool: dict[str, dict[str, list[Observation]]] = defaultdict(lambda: defaultdict(list))
    for row in reversed(ordered):
        for key in row.called:
            by_tool[key][row.principal].append(row)
    called: dict[str, set[str]] = defaultdict(set)
    for key, by_principal in by_tool.items():
        distinct = [_distinct_requests(rows) for _, rows in sorted(by_principal.items())]
        total = sum(map(len, distinct))
        limits = [max(MAX_PER_PRINCIPAL, total - len(rows)) for rows in distinct]
        if not is_alone:
            distinct = [rows[:limit] for rows, limit in zip(distinct, limits, strict=True)]
        in_turn = (row for row in chain(*zip_longest(*distinct)) if row is not None)
        for row, _ in zip(in_turn, range(MAX_PER_TOOL), strict=False):
            called[row.id].add(key)
    return [(row, frozenset(called[row.id])) for row in ordered if row.id in called]


def _distinct_requests(newest_first: Sequence[Observation]) -> list[Observation]:
    kept: list[Observation] = []
    vectors: list[Floats] = []
    for row in newest_first:
        if len(kept) >= MAX_PER_TOOL:
            break
        vector = row.unit_vector
        if not vectors or float((np.stack(vectors) @ vector).max()) < SAME_REQUEST:
            kept.append(row)
            vectors.append(vector)
    return kept


def _principals_by_tool(
    kept: Iterable[tuple[Observation, frozenset[str]]],
) -> Mapping[str, set[str]]:
    users: dict[str, set[str]] = defaultdict(set)
    for row, called in kept:
        for key in called:
            users[key].add(row.principal)
    return users


@dataclass(frozen=True, slots=True)
class _Lesson:
    """An observation as arrays: all scores, and which of them belong to tools that can learn."""

    vector: Floats
    scores: Doubles
    columns: Ints
    places: Ints
    wanted: Doubles
    rate: float

    @classmethod
    def of(
        cls, row: Observation, called: frozenset[str], places: Mapping[str, int], weight: float
    ) -> _Lesson:
        # A called tool that was not among the best shown counts as the last of them.
        last = min(row.shown.values(), default=0.0)
        scores = {**row.shown, **{key: row.shown.get(key, last) for key in sorted(row.called)}}
        learning = [(column, key) for column, key in enumerate(scores) if key in places]
        # A call that does not count, because a similar one does, teaches nothing against the tool.
        ignored = row.called.keys() - called
        learning = [(column, key) for column, key in learning if key not in ignored]
        return cls(
            row.unit_vector,
            np.array([*scores.values()]),
            np.array([column for column, _ in learning], np.int32),
            np.array([places[key] for _, key in learning], np.int32),
            np.array([(key in called) / len(called) for _, key in learning]),
            RATE * weight,
        )


def _descend(lessons: Sequence[_Lesson], caps: Floats) -> Floats:
    """Stochastic gradient descent on the cross-entropy of which tool is called."""
    rows = np.zeros((len(caps), len(lessons[0].vector)), np.float32)
    for number in range(PASSES):
        order = [*lessons]
        random.Random(number).shuffle(order)  # noqa: S311 - the same order every time, on purpose
        for lesson in order:
            _learn(rows, lesson, caps)
    return rows


def _learn(rows: Floats, lesson: _Lesson, caps: Floats) -> None:
    mine = rows[lesson.places]
    scores = lesson.scores.copy()
    scores[lesson.columns] += np.maximum(mine @ lesson.vector, 0)
    chances = np.exp(scores - scores.max())
    chances /= chances.sum()
    gradient = lesson.wanted - chances[lesson.columns]
    mine += (lesson.rate * gradient).astype(np.float32)[:, None] * lesson.vector
    norms = np.sqrt(np.einsum("ij,ij->i", mine, mine))
    limits = caps[lesson.places]
    mine *= np.minimum(1, limits / np.maximum(norms, 1e-9))[:, None]
    rows[lesson.places] = mine


def _typical_cosines(
    keys: Sequence[str], rows: Floats, kept: Iterable[tuple[Observation, frozenset[str]]]
) -> Floats:
    requests: dict[str, list[Floats]] = defaultdict(list)
    for row, called in kept:
        for key in called:
            requests[key].append(row.unit_vector)
    lengths = np.maximum(np.linalg.norm(rows, axis=1), _TINY)
    cosines = [
        np.median(np.stack(requests[key]) @ row) / length
        for key, row, length in zip(keys, rows, lengths, strict=True)
    ]
    return np.maximum(np.array(cosines, np.float32), 0)


def _build_graph(
    ordered: Sequence[Observation], *, is_alone: bool
) -> Mapping[str, Mapping[str, float]]:
    """For each tool, how much those lift that are called in the same turn."""
    turns: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in ordered:
        turns[row.principal, row.turn].update(row.called)
    used: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    both: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for (principal, _), keys in turns.items():
        for key in keys:
            used[key][principal] += 1
        for pair in permutations(sorted(keys), 2):
            both[pair][principal] += 1
    graph: dict[str, dict[str, float]] = defaultdict(dict)
    for (first, second), counts in sorted(both.items()):
        # Each principal counts with the share of its own requests, and at most so many of them.
        weights = {p: min(n, _MAX_TURNS_PER_PRINCIPAL) for p, n in used[first].items()}
        joint = sum(weights[p] * n / used[first][p] for p, n in counts.items())
        lift = GRAPH_LIFT * joint / (sum(weights.values()) + _GRAPH_PRIOR)
        is_agreed = is_alone or len(counts) > 1
        graph[first][second] = lift if is_agreed else min(lift, MAX_NORM_ALONE)
    return graph
