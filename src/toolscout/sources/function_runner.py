"""Run user functions: async ones in the event loop, the others in daemon threads."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from threading import Lock, Thread
from typing import Any, ParamSpec, TypeVar, cast

from pydantic import ValidationError

from ..catalog.failure import failure_result
from ..catalog.result import Content, Result
from ..catalog.tool import Tool
from ..catalog.tool_text import signature as signature_text
from ..errors import InvalidArgumentsError
from .signatures import FunctionSignature

P = ParamSpec("P")
T = TypeVar("T")
_Work = tuple["Future[Any]", Callable[[], Any]]

# Concurrent calls of one function; further calls wait until one returns.
MAX_CONCURRENT_CALLS = 32
# A generator may be infinite.
MAX_YIELDED_ITEMS = 10_000


class DaemonThreadPool:
    """Runs calls of a function in daemon threads, so that a hanging one blocks nothing else.

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


@dataclass(frozen=True, slots=True)
class FunctionRunner:
    """A function with its tool; checks arguments, calls it, and wraps what it returns or raises."""

    tool: Tool
    function: Callable[..., Any]
    signature: FunctionSignature
    threads: DaemonThreadPool = field(default_factory=DaemonThreadPool)

    async def run(self, arguments: Mapping[str, Any]) -> Result:
        """Call the function; every error it raises becomes a result."""
        try:
            positional, named = self.signature.split(self.signature.check(arguments))
        except ValidationError as error:
            return _invalid_arguments(self.tool, error)
        try:
            return Result.of(await self._invoke(positional, named))
        except BaseException as error:  # noqa: BLE001 - a tool may raise anything
            return failure_result(self.tool.name, error)

    async def _invoke(self, positional: list[Any], named: dict[str, Any]) -> Any:
        # A plain function may block, so it runs in a thread. It may still return a coroutine or a
        # generator, so the value is checked.
        if _is_async(self.function):
            value = self.function(*positional, **named)
        else:
            value = await self.threads.run(self._call_in_thread, positional, named)
        if inspect.isawaitable(value):
            value = await value
        if isinstance(value, AsyncIterator):
            return await _collect_async(cast("AsyncIterator[Any]", value))
        if isinstance(value, Iterator):
            return await self.threads.run(_collect, cast("Iterator[Any]", value))
        return value

    def _call_in_thread(self, positional: list[Any], named: dict[str, Any]) -> Any:
        """Call the function, and collect a generator's items in the same thread."""
        try:
            return _collect(self.function(*positional, **named))
        except StopIteration as error:  # a future cannot hold it, so the caller would wait forever
            return failure_result(self.tool.name, error)


def _collect(value: Any) -> object:
    """Collect the items of a generator in a list; return any other value unchanged."""
    if not isinstance(value, Iterator):
        return value
    return _limit_items([*islice(cast("Iterator[Any]", value), MAX_YIELDED_ITEMS + 1)])


async def _collect_async(items: AsyncIterator[Any]) -> object:
    """The same for an async generator."""
    collected: list[Any] = []
    async for item in items:
        collected.append(item)
        if len(collected) > MAX_YIELDED_ITEMS:
            break
    return _limit_items(collected)


def _limit_items(items: list[Any]) -> object:
    """Cut a list that is too long, and add a note about it."""
    if len(items) <= MAX_YIELDED_ITEMS:
        return items
    result = Result.of(items[:MAX_YIELDED_ITEMS])
    note = f"The result is cut: it has only the first {MAX_YIELDED_ITEMS:,} items."
    return replace(result, content=(*result.content, Content(text=note)))


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  asks which kind it is, not whether
    )


def _invalid_arguments(tool: Tool, error: ValidationError) -> Result:
    lines = [
        f"- {'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}"
        for item in error.errors(include_url=False, include_context=False)
    ]
    text = "\n".join(
        [f"The arguments do not fit {tool.name}:", *lines, f"Call {signature_text(tool)}"]
    )
    return Result.error(text, code=InvalidArgumentsError.code)
