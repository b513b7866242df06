"""Whether confidence means something: it tells good from bad, and is right as often as it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np


@dataclass(frozen=True, slots=True)
class Bin:
    """The searches whose confidence fell into one range, and how many of them were right."""

    low: float
    high: float
    count: int
    confidence: float
    right: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """Confidence against outcome: the curve, and the mean gap between them (ECE)."""

    bins: tuple[Bin, ...]
    error: float


def auroc(good: Sequence[float], bad: Sequence[float]) -> float:
    """The chance that a good case scores above a bad one; ties count half, no case gives 0.5."""
    if not good or not bad:
        return 0.5
    values, counts = np.unique(np.array([*good, *bad]), return_counts=True)
    ends = np.cumsum(counts)
    ranks = ends - (counts - 1) / 2
    total = float(ranks[np.searchsorted(values, np.array(good))].sum())
    return (total - len(good) * (len(good) + 1) / 2) / (len(good) * len(bad))


def false_refusal_rate(
    good: Sequence[float], bad: Sequence[float], *, caught: float = 0.9
) -> float:
    """The share of good cases refused at the lowest cut that refuses `caught` of the bad ones."""
    if not good or not bad:
        return 0.0
    needed = max(1, ceil(caught * len(bad) - 1e-9))
    last_refused = sorted(bad)[needed - 1]
    return sum(1 for score in good if score <= last_refused) / len(good)


def reliability(outcomes: Sequence[tuple[float, bool]], *, bins: int = 10) -> Reliability:
    """Put searches into equal ranges of confidence and compare each with how often it was right."""
    found: list[Bin] = []
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        inside = [(c, r) for c, r in outcomes if min(int(c * bins), bins - 1) == number]
        if inside:
            confidence = sum(c for c, _ in inside) / len(inside)
            right = sum(1 for _, r in inside if r) / len(inside)
            found.append(Bin(low, high, len(inside), confidence, right))
    gaps = sum(b.count * abs(b.confidence - b.right) for b in found)
    return Reliability(tuple(found), gaps / len(outcomes) if outcomes else 0.0)
