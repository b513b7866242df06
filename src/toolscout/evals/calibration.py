"""Calibration of confidence: AUROC, false refusals, and reliability by range (ECE)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np


@dataclass(frozen=True, slots=True)
class Bin:
    """The searches with confidence in one range, and the share of them that were right."""

    low: float
    high: float
    count: int
    confidence: float
    right: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """Confidence against accuracy: the curve, and the mean gap (expected calibration error)."""

    bins: tuple[Bin, ...]
    error: float


def auroc(good: Sequence[float], bad: Sequence[float]) -> float:
    """The probability that a good case scores above a bad one; 0.5 without cases."""
    # By the rank sum (Mann-Whitney U); tied values share their mean rank, so ties count half.
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
    """The share of good cases below the lowest threshold that refuses `caught` of the bad."""
    if not good or not bad:
        return 0.0
    # The small number undoes rounding: 0.9 * 10 may come out just above 9.
    needed = max(1, ceil(caught * len(bad) - 1e-9))
    last_refused = sorted(bad)[needed - 1]
    return sum(1 for score in good if score <= last_refused) / len(good)


def reliability(outcomes: Sequence[tuple[float, bool]], *, bins: int = 10) -> Reliability:
    """Group searches into equal ranges of confidence and compare it with accuracy."""
    filled: list[Bin] = []
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        inside = [(c, r) for c, r in outcomes if min(int(c * bins), bins - 1) == number]
        if inside:
            confidence = sum(c for c, _ in inside) / len(inside)
            right = sum(1 for _, r in inside if r) / len(inside)
            filled.append(Bin(low, high, len(inside), confidence, right))
    gaps = sum(b.count * abs(b.confidence - b.right) for b in filled)
    return Reliability(tuple(filled), gaps / len(outcomes) if outcomes else 0.0)
