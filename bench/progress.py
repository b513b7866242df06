"""Telling how far a long run is, on standard error."""

from __future__ import annotations

import sys
import time
from threading import Lock


class Progress:
    """Lines with the time since the start; on a terminal, counts overwrite themselves."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lock = Lock()
        self._is_open = False
        self._is_terminal = sys.stderr.isatty()

    def say(self, text: str) -> None:
        """One step of the run."""
        with self._lock:
            self._end()
            seconds = time.monotonic() - self._began
            print(f"[{seconds:6.0f} s] {text}", file=sys.stderr, flush=True)

    def count(self, text: str, done: int, total: int) -> None:
        """How many of how many are done; silent where lines cannot be overwritten."""
        if self._is_terminal and (done % 25 == 0 or done == total):
            with self._lock:
                print(f"\r\033[K           {text} {done}/{total}", end="", file=sys.stderr)
                self._is_open = True

    def _end(self) -> None:
        if self._is_open:
            print("\r\033[K", end="", file=sys.stderr)
            self._is_open = False
