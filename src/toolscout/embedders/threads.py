"""How many threads NumPy may use: one for a query, all available cores for many texts."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from threading import Lock
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_THREADS = 8
"""Beyond this, memory bandwidth and the interpreter are the limit."""

_threadpools: Any = import_module("threadpoolctl")  # it has no type hints
_blas: Any = _threadpools.ThreadpoolController()


class _BlasLimit:
    """Limits BLAS to one thread while at least one block needs it."""

    # The limit is one setting for the whole process. Blocks in several threads overlap, and each
    # restoring what it found would leave the limit of another behind.

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._limit: Any = None

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                self._limit = _blas.limit(limits=1, user_api="blas")
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limit.restore_original_limits()


_blas_limit = _BlasLimit()


@contextmanager
def one_thread() -> Generator[None]:
    """Run the matrix operations of a block on the calling thread."""
    # On matrices of this size, waking BLAS threads costs more than they gain; on busy cores it was
    # thirty times slower.
    _blas_limit.enter()
    try:
        yield
    finally:
        _blas_limit.leave()


def available_threads() -> int:
    """The cores that this process may use; `OMP_NUM_THREADS` lowers it."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # Linux only
        cores = os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    limit = int(asked) if asked.isdecimal() and int(asked) > 0 else cores
    return max(1, min(cores, limit, MAX_THREADS))


def map_in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Apply a function to items, in as many threads as the process may use."""
    threads = min(available_threads(), len(items))
    if threads < 2:
        return [work(item) for item in items]
    # A pool for each call: idle threads would not survive a fork.
    with ThreadPoolExecutor(threads, thread_name_prefix="toolscout-encode") as pool:
        return list(pool.map(work, items))
