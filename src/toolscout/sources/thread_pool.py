"""Threads for functions that are not ours: one that never returns holds up nobody else."""

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

MOST_AT_ONCE = 32
"""How many calls of one function run at once; the next wait for one of them to return."""


class DaemonThreadPool:
    """Runs a function aside, each call in a thread, as long as there are not too many of them.

    The event loop's own threads are few and the whole library needs them, and a program waits for
    them when it ends. These are others, and they die with the program.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running = 0
        self._waiting: deque[_Work] = deque()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What it returns in the caller's context; given up before its turn, it is not called."""
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
            if self._running == MOST_AT_ONCE:
                self._waiting.append(work)
                return
            Thread(
                target=self._run_worker, args=(work,), name="toolscout-function", daemon=True
            ).start()
            self._running += 1

    def _withdraw(self, work: _Work) -> None:
        with self._lock, suppress(ValueError):  # it may have begun
            self._waiting.remove(work)

    def _run_worker(self, work: _Work | None) -> None:
        while work is not None:
            _run_work(*work)
            work = self._next_work()

    def _next_work(self) -> _Work | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None


def _run_work(future: Future[Any], work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = work()
    except BaseException as error:  # noqa: BLE001 - whoever waits for it decides what it means
        future.set_exception(error)
    else:
        future.set_result(value)
