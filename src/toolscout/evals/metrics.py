"""Figures for one ranked answer: recall, nDCG and reciprocal rank over groups of equals.

A *group* is one need of a query; any tool in it satisfies that need, and only the first one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from math import log2

Groups = Sequence[AbstractSet[str]]


def recall(ranked: Sequence[str], groups: Groups, *, at: int) -> float:
    """The share of needs that the first `at` names satisfy."""
    seen = set(ranked[:at])
    return sum(1 for group in groups if group & seen) / len(groups) if groups else 0.0


def ndcg(ranked: Sequence[str], groups: Groups, *, at: int = 10) -> float:
    """How early needs are satisfied, against the best order; a need counts the first time only."""
    left = list(groups)
    gain = 0.0
    for rank, name in enumerate(ranked[:at]):
        met = next((group for group in left if name in group), None)
        if met is not None:
            left.remove(met)
            gain += _discount(rank)
    best = sum(_discount(rank) for rank in range(min(len(groups), at)))
    return gain / best if best else 0.0


def reciprocal_rank(ranked: Sequence[str], groups: Groups) -> float:
    """One over the place of the first name that satisfies any need."""
    wanted = set[str]().union(*groups)
    return next((1 / rank for rank, name in enumerate(ranked, start=1) if name in wanted), 0.0)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which about `share` of the values lie: one that was really measured."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def _discount(rank: int) -> float:
    return 1 / log2(rank + 2)
