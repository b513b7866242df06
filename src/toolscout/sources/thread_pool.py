"""Daemon threads for user functions, so that a hanging function blocks nothing else."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import Lock, Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_Work = tuple["Future[Any]", Callable[[], Any]]

# Concurrent calls of one function; further calls wait until one returns.
MAX_CONCURRENT_CALLS = 32


class DaemonThreadPool:
    """Runs calls of a function in daemon threads, up to a limit at once.

    The event loop's default executor does not fit: it has few threads, which search and store need
    as well, and the interpreter waits for them at exit. Daemon threads end with the program.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running = 0
        self._queue: deque[_Work] = deque()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in the caller's context; if cancelled in the queue, it is never called."""
        future: Future[T] = Future()
        work = future, partial(copy_context().run, function, *args, **kwargs)
        self._submit(work)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._withdraw(work)
            raise

    def _submit(self, work: _Work) -> None:
        with self._lock:
            if self._running == MAX_CONCURRENT_CALLS:
                self._queue.append(work)
                return
            Thread(
                target=self._run_worker, args=(work,), name="toolscout-function", daemon=True
            ).start()
            self._running += 1

    def _withdraw(self, work: _Work) -> None:
        with self._lock, suppress(ValueError):  # it may have started already
            self._queue.remove(work)

    def _run_worker(self, work: _Work | None) -> None:
        # A worker takes over queued calls before it ends, so the limit on threads holds without a
        # scheduler.
        while work is not None:
            _run_work(*work)
            work = self._next_work()

    def _next_work(self) -> _Work | None:
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            self._running -= 1
            return None


def _run_work(future: Future[Any], work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = work()
    except BaseException as error:  # noqa: BLE001  the waiting caller handles it
        future.set_exception(error)
    else:
        future.set_result(value)
