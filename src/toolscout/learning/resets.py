"""When learned state was reset, by a clock that never jumps."""

from __future__ import annotations

import time

from ..store.contract import Clock


class ResetWatch:
    """Finds the monotonic time of the last reset: turns that began before it teach nothing.

    A reset stores the time of another process, whose clock may be wrong. It happened between the
    two observations of which only the second saw it, so its time is bounded to these. In doubt it
    counts as later: forgetting one turn too many is better than keeping one.
    """

    def __init__(self, clock: Clock = time.time, ticks: Clock = time.monotonic) -> None:
        self._clock = clock
        self._ticks = ticks
        self._last_reset = ""
        self._observed = float("-inf")
        self.ticks = float("-inf")

    def observe(self, reset: str, cleared: float) -> None:
        """Take over the last reset as the store has it now: its id, and its time there."""
        now = self._ticks()
        if reset and reset != self._last_reset:
            age = max(0.0, self._clock() - cleared)
            self.ticks = max(self._observed, now - age)
            self._last_reset = reset
        self._observed = now
