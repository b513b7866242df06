"""A circuit breaker: while a server does not answer, uses of it fail at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Lock, Thread

# A server that was only slow answers the first probe within this time, and no further use fails.
_GRACE_SECONDS = 0.2
_PAUSE_SECONDS = 0.1


class CircuitBreaker:
    """Opens when a use has timed out, and closes when the server answers a probe.

    `probe` runs in a thread of its own. It raises TimeoutError if there is no answer, after a time
    of its own. Any other error is an answer: the next use gets it too, without waiting.
    """

    def __init__(self, probe: Callable[[], None]) -> None:
        self._probe = probe
        self._lock = Lock()
        self._is_closed = Event()
        self._is_closed.set()
        self._opened_at = 0.0
        self._is_over = False

    def check(self) -> None:
        """Raise TimeoutError while the server does not answer."""
        if self._is_closed.is_set():
            return
        grace = self._opened_at + _GRACE_SECONDS - time.monotonic()
        if not self._is_closed.wait(max(0.0, grace)):
            raise TimeoutError

    def trip(self) -> None:
        """Let further uses fail until the server answers again."""
        with self._lock:
            if self._is_over or not self._is_closed.is_set():
                return
            self._opened_at = time.monotonic()
            self._is_closed.clear()
        Thread(target=self._run, name="toolscout-store-probe", daemon=True).start()

    def stop(self) -> None:
        """Probe no more."""
        self._is_over = True

    def _run(self) -> None:
        while not self._is_over:
            try:
                self._probe()
            except TimeoutError:
                time.sleep(_PAUSE_SECONDS)
                continue
            except Exception:  # noqa: BLE001, S110 - the next use raises it where it is reported
                pass
            break
        self._is_closed.set()
