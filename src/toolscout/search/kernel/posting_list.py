"""What the inner loops take: words with the tools that have them, and how to lean to servers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from ctypes import addressof, c_char
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

MIN_VARIANCE = 1e-6
"""The least variance: what never varies says nothing, but is no division by zero."""

_PACKED = struct.Struct("@PPqdddd")


_at: Callable[[npt.NDArray[Any]], c_char] = c_char.from_buffer  # pyright: ignore[reportAssignmentType] # arrays are buffers


def address(array: npt.NDArray[Any]) -> int:
    """Where an array that is not empty stands in memory, told faster than it tells itself."""
    return addressof(_at(array))


class PostingList(NamedTuple):
    """A word: the slots of the tools that have it, in order, and what it weighs in each of them.

    `worth` is what weights are multiplied by, and `idf` how rare the word is; `mean` and `variance`
    are those of its gain over the whole catalog. `packed` is all of it for compiled code, which
    finds the arrays by where they are in memory.
    """

    slots: Ints
    weights: Floats
    worth: float
    idf: float
    mean: float
    variance: float
    packed: bytes

    @classmethod
    def of(
        cls, slots: Ints, weights: Floats, worth: float, idf: float, mean: float, variance: float
    ) -> PostingList:
        """A word that some tool has, of arrays that stand in one piece and that nobody changes."""
        told = worth, idf, mean, variance
        packed = _PACKED.pack(address(slots), address(weights), len(slots), *told)
        return cls(slots, weights, *told, packed)

    @property
    def gains(self) -> Floats:
        """What it gives each of the tools."""
        return self.weights * np.float32(self.worth)


def slot_error(slots: Ints, size: int) -> IndexError:
    """What is said to whoever offers slots that are not there, as a ranker of one's own may."""
    bad = slots[(slots < 0) | (slots >= size)]
    return IndexError(f"A ranker offered slot {bad[0]}, but there are only 0 to {size - 1}.")


class ServerBoost(NamedTuple):
    """How far a tool gains by the best one of its server.

    `server` has the number of every slot's, each below `servers`; tools of the `nameless` one, if
    there is such (else -1), gain nothing.
    """

    server: Ints
    servers: int
    nameless: int
    share: float
