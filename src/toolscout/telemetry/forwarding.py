"""Forward lines to a receiver in the background: a queue with a bound, retries, and counters."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any, Protocol

log = logging.getLogger(__name__)
BATCH_LINES = 200
"""How many lines are sent at once at most."""

# While a receiver is down it is tried less and less often.
_FIRST_PAUSE_SECONDS = 0.2
_MAX_PAUSE_SECONDS = 5.0
# The lines left at the end get this long. A receiver that is down must not keep the program from
# ending.
_CLOSE_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedLine:
    """One thing that happened, in the words of the audit log."""

    time: float
    kind: str
    is_ok: bool
    facts: Mapping[str, Any]


class Receiver(Protocol):
    """Takes lines; called from one thread only."""

    def send(self, lines: Sequence[ForwardedLine]) -> int:
        """Send some of the first lines; how many were taken. Raises OSError if none was."""
        ...

    def close(self) -> None:
        """Release what is open."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingStatus:
    """How a receiver is doing; `problem` is empty if the last attempt succeeded."""

    target: str
    sent: int
    dropped: int
    queued: int
    problem: str


class Forwarder:
    """Queues lines and sends them from its own thread; adding a line never waits or fails.

    If the queue is full, new lines are dropped and counted.
    """

    def __init__(self, target: str, receiver: Receiver, *, max_lines: int) -> None:
        self.target = target
        self._receiver = receiver
        self._max_lines = max_lines
        self._queue: deque[ForwardedLine] = deque()
        self._sent = self._dropped = 0
        self._problem = ""
        self._changed = Condition()
        self._end: float | None = None
        self._thread = Thread(target=self._run, name="toolscout-forwarding", daemon=True)
        self._thread.start()

    def add(self, line: ForwardedLine) -> None:
        """Queue a line, or count it as dropped."""
        with self._changed:
            if len(self._queue) >= self._max_lines or self._end is not None:
                self._dropped += 1
            else:
                self._queue.append(line)
                self._changed.notify()

    @property
    def status(self) -> ForwardingStatus:
        """The counters as of now."""
        with self._changed:
            return ForwardingStatus(
                target=self.target,
                sent=self._sent,
                dropped=self._dropped,
                queued=len(self._queue),
                problem=self._problem,
            )

    def close(self) -> None:
        """Send what is queued, for a limited time, and end the thread."""
        with self._changed:
            self._end = time.monotonic() + _CLOSE_SECONDS
            self._changed.notify()
        self._thread.join(_CLOSE_SECONDS)
        left = len(self._queue)
        if left:
            log.warning("%d audit lines were not forwarded to %s.", left, self.target)

    def _run(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while batch := self._next_batch():
            try:
                taken = self._receiver.send(batch)
            except OSError as error:
                self._fail(error)
                if self._wait(pause):
                    break
                pause = min(_MAX_PAUSE_SECONDS, 2 * pause)
            else:
                pause = _FIRST_PAUSE_SECONDS
                self._succeed(taken)
        self._receiver.close()

    def _next_batch(self) -> list[ForwardedLine]:
        """The oldest lines, which stay queued until they are sent; none at the end."""
        with self._changed:
            while not self._queue and self._end is None:
                self._changed.wait()
            count = min(BATCH_LINES, len(self._queue))
            return [self._queue[place] for place in range(count)]

    def _wait(self, seconds: float) -> bool:
        """Wait before another attempt; whether it is too late for one."""
        with self._changed:
            self._changed.wait_for(lambda: self._end is not None, timeout=seconds)
            if self._end is None:
                return False
            left = self._end - time.monotonic()
        time.sleep(max(0.0, min(_FIRST_PAUSE_SECONDS, left)))
        return left <= _FIRST_PAUSE_SECONDS

    def _fail(self, error: OSError) -> None:
        with self._changed:
            is_new, self._problem = not self._problem, str(error) or type(error).__name__
        if is_new:
            log.warning("Audit lines cannot be forwarded to %s: %s", self.target, error)

    def _succeed(self, taken: int) -> None:
        with self._changed:
            for _ in range(taken):
                self._queue.popleft()
            self._sent += taken
            was_failing, self._problem = bool(self._problem), ""
        if was_failing:
            log.info("Audit lines are forwarded to %s again.", self.target)
