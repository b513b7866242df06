"""An event loop in a background thread, for programs that cannot await."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

from ..errors import ClosedError, ToolscoutError

P = ParamSpec("P")
T = TypeVar("T")

# At interpreter exit a user cannot interrupt a server that is slow to stop.
EXIT_WAIT_SECONDS = 10.0


class LoopThread:
    """Runs an event loop in a thread of its own; any other thread gives it work and waits.

    `resource` is entered when the loop starts and left when it stops, both in the loop.
    """

    def __init__(self, resource: AbstractAsyncContextManager[object]) -> None:
        self._resource = resource
        # Work that is submitted while the loop stops would never run, and its caller would wait
        # forever: the lock puts the two in an order.
        self._lock = threading.Lock()
        self._calls: set[Future[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop_request = asyncio.Event()
        self._is_open = False
        self._opening: Future[None] = Future()
        self._closing: Future[None] = Future()

    def start(self) -> None:
        """Start the loop and enter the resource; raises what entering raises."""
        with self._lock:
            if self._thread is not None:
                raise _entered_twice_error()
            loop = self._loop = asyncio.new_event_loop()
            # A daemon: a program that ends without closing must not hang.
            self._thread = threading.Thread(
                target=self._run_loop, args=(loop,), name="toolscout-loop", daemon=True
            )
            self._thread.start()
        _RUNNING.add(self)
        try:
            self._opening.result()
        except BaseException:
            # Also for Ctrl-C while servers start. They are closed in the background.
            self._request_stop(loop)
            raise

    def stop(self, *, timeout_seconds: float | None = None) -> None:
        """Cancel the calls that still run, leave the resource, and end the thread."""
        self._check_not_own_thread()
        if self._loop is None or self._thread is None:
            return
        self._request_stop(self._loop)
        self._thread.join(timeout_seconds)
        if self._closing.done():
            self._closing.result()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for it; Ctrl-C while waiting cancels it."""
        call = self._submit(work)
        try:
            return call.result()
        except CancelledError:
            self.check_open()
            raise
        finally:
            # It is done, unless the wait was interrupted: then its result would be lost.
            call.cancel()
            self._calls.discard(call)

    def run_function(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a plain function in the loop, so that it never meets a change halfway."""

        async def work() -> T:
            return function(*args, **kwargs)

        return self.run(work())

    def check_open(self) -> None:
        """Raise if the loop cannot be used from here, or not yet, or not any more."""
        self._check_not_own_thread()
        if self._thread is None:
            raise _not_entered_error()
        if not self._is_open:
            raise _closed_error()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            try:
                self.check_open()
                assert self._loop is not None
                call = asyncio.run_coroutine_threadsafe(work, self._loop)
            except BaseException:
                work.close()  # or Python warns that it was never awaited
                raise
            self._calls.add(call)
            return call

    def _check_not_own_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise _own_loop_error()

    def _request_stop(self, loop: asyncio.AbstractEventLoop) -> None:
        self._end_calls()
        with suppress(RuntimeError):  # the loop has ended by itself
            loop.call_soon_threadsafe(self._stop_request.set)

    def _end_calls(self) -> None:
        """Accept no more calls, and cancel those that run."""
        with self._lock:
            self._is_open = False
            calls = tuple(self._calls)
        for call in calls:
            call.cancel()

    # In the thread of the loop

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        failure: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                # An executor of its own, so that its threads end with the loop.
                executor = ThreadPoolExecutor(thread_name_prefix="toolscout-worker")
                loop.set_default_executor(executor)
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
            failure = error
        self._end_calls()
        _RUNNING.discard(self)
        if failure is not None and not self._opening.done():
            self._opening.set_exception(failure)
        elif isinstance(failure, Exception):
            self._closing.set_exception(failure)
        else:
            # A tool that raised KeyboardInterrupt ends the loop; its caller has got that already.
            self._closing.set_result(None)

    async def _serve(self) -> None:
        async with self._resource:
            self._is_open = True
            self._opening.set_result(None)
            await self._stop_request.wait()


_RUNNING: WeakSet[LoopThread] = WeakSet()


def _stop_running_loops() -> None:
    for loop in tuple(_RUNNING):
        with suppress(Exception):
            loop.stop(timeout_seconds=EXIT_WAIT_SECONDS)


# `atexit` would be too late: no thread can be started by then, and closing needs some. The hook of
# `threading` is private, but it is the one that `concurrent.futures` itself depends on.
threading._register_atexit(_stop_running_loops)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def _not_entered_error() -> ToolscoutError:
    return ToolscoutError(
        "This toolbox has not been entered, so its tools are not known yet.",
        hint="Write `with Toolbox(...).sync() as box:` and use it inside.",
    )


def _entered_twice_error() -> ToolscoutError:
    return ToolscoutError(
        "This toolbox was entered before. A toolbox can be entered only once.",
        hint="Make a new Toolbox with the same sources.",
    )


def _closed_error() -> ClosedError:
    return ClosedError(
        "This toolbox is closed. A toolbox can be entered only once.",
        hint="Make a new Toolbox with the same sources.",
    )


def _own_loop_error() -> ToolscoutError:
    return ToolscoutError(
        "The synchronous toolbox was used inside its own event loop, which would wait for itself.",
        hint="Make the tool or hook that does this a plain function, which runs in a thread, or"
        " use `await asyncio.to_thread(...)` in it.",
    )
