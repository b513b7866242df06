"""Ranking metrics: recall, nDCG and reciprocal rank over groups of equivalent tools.

A *group* is one need of a query. Any tool in it satisfies the need, and only the first one counts.
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
    """Normalised discounted cumulative gain; each need counts the first time only."""
    unmet = list(groups)
    gain = 0.0
    for rank, name in enumerate(ranked[:at]):
        met = next((group for group in unmet if name in group), None)
        if met is not None:
            unmet.remove(met)
            gain += _discount(rank)
    best = sum(_discount(rank) for rank in range(min(len(groups), at)))
    return gain / best if best else 0.0


def reciprocal_rank(ranked: Sequence[str], groups: Groups) -> float:
    """One over the rank of the first name that satisfies any need."""
    relevant = set[str]().union(*groups)
    return next((1 / rank for rank, name in enumerate(ranked, start=1) if name in relevant), 0.0)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which about `share` of the values lie, without interpolation."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def _discount(rank: int) -> float:
    return 1 / log2(rank + 2)
