"""Durations counted in fixed ranges, so that counts of several processes add up."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import numpy as np
from numpy.typing import NDArray

BOUNDS_MS: Final = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000, 120_000,
)  # fmt: skip
"""The upper end of each range in milliseconds; the last range has none."""

RANGES: Final = len(BOUNDS_MS) + 1

_STARTS = np.array([0, *BOUNDS_MS], np.float64)
_ENDS = np.array([*BOUNDS_MS, BOUNDS_MS[-1]], np.float64)


def find_range(milliseconds: float) -> int:
    """The number of the range that a duration is in."""
    return bisect_left(BOUNDS_MS, milliseconds)


def percentiles(counts: NDArray[np.int64], share: float) -> list[float | None]:
    """For each row of counts, the duration that this share does not exceed; None without any.

    Durations count as spread evenly over their range, and those of the last range as its start.
    """
    wanted, reached = share * counts.sum(axis=1), counts.cumsum(axis=1)
    rows = np.arange(len(counts))
    found = ((reached >= wanted[:, None]) & (counts > 0)).argmax(axis=1)
    inside = counts[rows, found]
    part = (wanted - reached[rows, found] + inside) / np.maximum(inside, 1)
    values: list[float] = (_STARTS[found] + part * (_ENDS - _STARTS)[found]).round(1).tolist()
    return [value if is_any else None for value, is_any in zip(values, inside > 0, strict=True)]
