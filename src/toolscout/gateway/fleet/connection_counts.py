"""How many connections each worker has open, in memory that all workers of a machine share."""

from __future__ import annotations

import mmap
import os
import tempfile

_ITEM_BYTES = 4
_ABSENT = 0xFFFF_FFFF


class ConnectionCounts:
    """One number for each worker, which only that worker writes, or the supervisor in its absence.

    The numbers are only a hint: a reader may see one that has just changed.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, 0)
        # Items of four bytes are read and written as a whole.
        self._counts = memoryview(self._map).cast("I")

    @classmethod
    def create(cls, workers: int) -> ConnectionCounts:
        """Numbers for this many workers, none of which runs yet."""
        with tempfile.TemporaryFile() as file:
            file.write(_ABSENT.to_bytes(_ITEM_BYTES, "little") * workers)
            file.flush()
            return cls(os.dup(file.fileno()))

    def write(self, worker: int, count: int) -> None:
        """Note how many connections a worker has."""
        self._counts[worker] = count

    def forget(self, worker: int) -> None:
        """Note that a worker does not run."""
        self._counts[worker] = _ABSENT

    def is_above_others(self, worker: int) -> bool:
        """Whether another running worker has fewer connections than this one."""
        return self._counts[worker] > min(self._counts)

    def close(self) -> None:
        """Release the memory."""
        self._counts.release()
        self._map.close()
        os.close(self.descriptor)
