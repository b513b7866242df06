"""Durations counted in fixed ranges, so that counts of several processes add up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

BOUNDS_MS: Final = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000, 120_000,
)  # fmt: skip
"""The upper end of each range in milliseconds; the last range has none."""

RANGES: Final = len(BOUNDS_MS) + 1


def find_range(milliseconds: float) -> int:
    """The number of the range that a duration is in."""
    return bisect_left(BOUNDS_MS, milliseconds)


def percentile(counts: Sequence[int], share: float) -> float | None:
    """The duration that this share of the counted ones does not exceed; None without any.

    Durations count as spread evenly over their range, and those of the last range as its start.
    """
    wanted, below = share * sum(counts), 0
    for number, count in enumerate(counts):
        if count and below + count >= wanted:
            if number == len(BOUNDS_MS):
                return float(BOUNDS_MS[-1])
            start = BOUNDS_MS[number - 1] if number else 0
            part = (wanted - below) / count
            return round(start + part * (BOUNDS_MS[number] - start), 1)
        below += count
    return None
