"""Observations with made-up vectors."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from toolscout.learning.observation import Observation

SIZE = 32
_numbers = count()


def vector(seed: int, *, near: int | None = None, noise: float = 0.05) -> bytes:
    """A unit vector; close to that of another seed if `near` is given."""
    values = np.random.default_rng(seed).standard_normal(SIZE)
    if near is not None:
        other = np.frombuffer(vector(near), np.float16).astype(np.float64)
        values = other + noise * values / np.linalg.norm(values)
    return (values / np.linalg.norm(values)).astype(np.float16).tobytes()


def row(request: bytes, *called: str, **options: Any) -> Observation:
    """A request that found five tools and led to calls."""
    number = next(_numbers)
    shown = {"a": 2.0, "b": 1.8, "c": 1.0, "d": 0.5, "e": 0.1}
    values: dict[str, Any] = {
        "id": f"{number:08}",
        "turn": f"turn-{number}",
        "time": 1_000.0 + number,
        "principal": "ann",
        **options,
    }
    return Observation(
        vector=request, called={key: f"tool_{key}" for key in called}, shown=shown, **values
    )
