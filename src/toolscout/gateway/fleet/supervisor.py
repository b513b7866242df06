"""Keep a number of workers running on one listening socket, until a signal ends all of them."""

from __future__ import annotations

import logging
import selectors
import signal
import socket
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from .connection_counts import ConnectionCounts
from .worker_process import WorkerProcess

log = logging.getLogger(__name__)
FIRST_DELAY_SECONDS = 0.5
MAX_DELAY_SECONDS = 30.0
# A worker that has run for this long was fine, and starts again as fast as the first time.
_STABLE_SECONDS = 60.0
# Longer than a worker takes to close its connections and servers.
_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.5
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def next_delay(last_seconds: float, *, lived_seconds: float) -> float:
    """How long to wait before a worker starts again; twice as long after each early end."""
    if not last_seconds or lived_seconds >= _STABLE_SECONDS:
        return FIRST_DELAY_SECONDS
    return min(MAX_DELAY_SECONDS, 2 * last_seconds)


@dataclass(slots=True)
class _WorkerSlot:
    """One of the workers: its process while it runs, or when it starts again."""

    number: int
    process: WorkerProcess | None = None
    started_at: float = 0.0
    delay_seconds: float = 0.0
    start_at: float = 0.0


class Supervisor:
    """Starts workers with `start_worker`, and starts each that ends again.

    `counts` has their open connections.
    """

    def __init__(
        self,
        start_worker: Callable[[int], WorkerProcess],
        *,
        workers: int,
        counts: ConnectionCounts,
    ) -> None:
        self._start_worker = start_worker
        self._counts = counts
        self._slots = [_WorkerSlot(number) for number in range(workers)]
        self._selector = selectors.DefaultSelector()
        self._signals = 0
        self._was_ready = False
        self._exit_code = 0

    def run(self) -> int:
        """Supervise until SIGTERM or SIGINT; the exit code.

        If a worker fails before any of them has ever been ready, the others would fail alike: then
        this ends with the exit code of the worker.
        """
        with self._selector, self._catch_signals():
            try:
                while not self._signals and not self._exit_code:
                    self._start_due()
                    self._wait()
                    self._collect()
            finally:
                self._stop()
        return self._exit_code

    def _start_due(self) -> None:
        now = time.monotonic()
        for slot in self._slots:
            if slot.process is None and slot.start_at <= now:
                slot.started_at = now
                try:
                    slot.process = self._start_worker(slot.number)
                except OSError as error:  # the machine has no process or memory left
                    self._delay(slot, f"cannot be started: {error}")
                    continue
                self._selector.register(slot.process.control, selectors.EVENT_READ, slot.process)

    def _wait(self) -> None:
        """Wait until a worker reports something or ends, a signal comes, or one has to start."""
        due = [slot.start_at for slot in self._slots if slot.process is None]
        seconds = min([_POLL_SECONDS, *(at - time.monotonic() for at in due)])
        for key, _ in self._selector.select(max(0.0, seconds)):
            process = key.data
            if isinstance(process, WorkerProcess):
                if not process.read_control():
                    self._selector.unregister(process.control)
                    process.wait(_POLL_SECONDS)
                self._was_ready |= process.is_ready
            else:
                process()

    def _collect(self) -> None:
        for slot in self._slots:
            process = slot.process
            code = process.poll() if process is not None else None
            if process is None or code is None:
                continue
            self._forget(slot)
            if self._signals:
                continue
            if code > 0 and not self._was_ready:
                self._exit_code = code
                return
            self._delay(slot, f"(process {process.pid}) {_describe_end(code)}")

    def _delay(self, slot: _WorkerSlot, reason: str) -> None:
        """Let a worker start again later, and log why it has to."""
        now = time.monotonic()
        lived_seconds = now - slot.started_at
        slot.delay_seconds = next_delay(slot.delay_seconds, lived_seconds=lived_seconds)
        slot.start_at = now + slot.delay_seconds
        seconds = slot.delay_seconds
        log.warning("Worker %d %s. It starts again in %g s.", slot.number + 1, reason, seconds)

    def _forget(self, slot: _WorkerSlot) -> None:
        process, slot.process = slot.process, None
        assert process is not None
        # The others need not leave connections to it.
        self._counts.forget(slot.number)
        if process.control in {key.fileobj for key in self._selector.get_map().values()}:
            self._selector.unregister(process.control)
        process.close()

    def _stop(self) -> None:
        """Ask all workers to end, and kill those that do not."""
        running = self._running()
        for process in running:
            process.send_signal(signal.SIGTERM)
        asked, deadline = self._signals, time.monotonic() + _STOP_SECONDS
        # Who asks a second time does not want to wait.
        while running and time.monotonic() < deadline and self._signals <= max(1, asked):
            running[0].wait(_POLL_SECONDS / 5)
            running = [process for process in running if process.poll() is None]
        for process in running:
            log.warning("The worker with process %d did not end and is killed.", process.pid)
            process.kill()
            process.wait(_STOP_SECONDS)
        for slot in self._slots:
            if slot.process is not None:
                self._forget(slot)

    def _running(self) -> list[WorkerProcess]:
        return [
            p.process for p in self._slots if p.process is not None and p.process.poll() is None
        ]

    @contextmanager
    def _catch_signals(self) -> Generator[None]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for end in (ours, theirs):
                end.settimeout(0)

            def note(_: int, __: FrameType | None) -> None:
                self._signals += 1
                # select() continues after a handler, unless there is something to read.
                _send_quietly(theirs)

            self._selector.register(ours, selectors.EVENT_READ, lambda: ours.recv(64))
            before = {number: signal.signal(number, note) for number in _SIGNALS}
            try:
                yield
            finally:
                _restore(before.items())


def _send_quietly(end: socket.socket) -> None:
    try:
        end.send(b"\0")
    except BlockingIOError:  # it is full of earlier signals
        return


def _restore(handlers: Iterable[tuple[signal.Signals, object]]) -> None:
    for number, handler in handlers:
        signal.signal(number, handler)  # pyright: ignore[reportArgumentType] -- as signal() returned it


def _describe_end(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
