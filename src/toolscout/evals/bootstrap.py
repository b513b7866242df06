"""Bootstrap confidence intervals of a metric over queries, with a fixed seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Draws are made in blocks, because all at once would need draws x queries numbers in memory.
_DRAWS_PER_BLOCK = 200


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its interval: the range that contains `level` of the resampled means."""

    mean: float
    low: float
    high: float

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes zero, so that a difference is unlikely to be chance."""
        return self.low > 0 or self.high < 0


def confidence_interval(
    values: Sequence[float], *, level: float = 0.95, draws: int = 2_000, seed: int = 0
) -> Interval:
    """The mean of one metric over the queries, with its interval."""
    data = np.asarray(values, dtype=np.float64)
    if not len(data):
        return Interval(0.0, 0.0, 0.0)
    tail = (1 - level) / 2
    low, high = np.quantile(_bootstrap_means(data, draws=draws, seed=seed), [tail, 1 - tail])
    return Interval(float(data.mean()), float(low), float(high))


def gain_interval(
    after: Sequence[float],
    before: Sequence[float],
    *,
    level: float = 0.95,
    draws: int = 2_000,
    seed: int = 0,
) -> Interval:
    """The mean gain from `before` to `after` on the same queries, in the same order."""
    # Paired by query, which removes the variance between easy and hard queries.
    gains = [a - b for a, b in zip(after, before, strict=True)]
    return confidence_interval(gains, level=level, draws=draws, seed=seed)


def _bootstrap_means(
    data: npt.NDArray[np.float64], *, draws: int, seed: int
) -> npt.NDArray[np.float64]:
    random = np.random.default_rng(seed)
    size = len(data)
    blocks = [
        data[random.integers(0, size, (min(_DRAWS_PER_BLOCK, draws - done), size))].mean(axis=1)
        for done in range(0, draws, _DRAWS_PER_BLOCK)
    ]
    return np.concatenate(blocks)
