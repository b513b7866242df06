"""The arguments of the inner loops: posting lists and the boost for tools of a matching server."""

from __future__ import annotations

import struct
from collections.abc import Callable
from ctypes import addressof, c_char
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats, Ints

MIN_VARIANCE = 1e-6
"""Lower bound of a variance, against division by zero: a term that all tools have equally."""

# The layout of `PostingList` in loops.c: two pointers, an int64 and four doubles, as the C compiler
# of this platform aligns them ("@").
_PACKED = struct.Struct("@PPqdddd")


_at: Callable[[npt.NDArray[Any]], c_char] = c_char.from_buffer  # pyright: ignore[reportAssignmentType] # arrays are buffers


def address(array: npt.NDArray[Any]) -> int:
    """The memory address of a non-empty array; faster than `array.ctypes.data`."""
    return addressof(_at(array))


class PostingList(NamedTuple):
    """A term: the slots of the tools that have it, in ascending order, and its weight in each.

    `worth` multiplies the weights (idf, or less for a translated term). `idf` is the inverse
    document frequency. `mean` and `variance` describe the term's score over the whole catalog.
    `packed` holds all of it for the compiled code, with the memory addresses of the arrays.
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
        """Build a posting list from non-empty, contiguous arrays that nobody changes afterwards."""
        # Packed once here, so that a search only joins bytes. The tuple keeps the arrays alive, so
        # the addresses stay valid as long as the posting list does.
        numbers = worth, idf, mean, variance
        packed = _PACKED.pack(address(slots), address(weights), len(slots), *numbers)
        return cls(slots, weights, *numbers, packed)

    @property
    def gains(self) -> Floats:
        """The score that the term adds to each of its slots."""
        return self.weights * np.float32(self.worth)


def slot_error(slots: Ints, size: int) -> IndexError:
    """The error for slots that do not exist, which a custom ranker may return."""
    bad = slots[(slots < 0) | (slots >= size)]
    return IndexError(f"A ranker offered slot {bad[0]}, but there are only 0 to {size - 1}.")


class ServerBoost(NamedTuple):
    """How much a tool gains from the best tool of its server.

    `server` holds the server number of every slot, each below `servers`. Tools of the server
    `nameless` gain nothing; it is -1 if every tool has a server.
    """

    server: Ints
    servers: int
    nameless: int
    share: float
