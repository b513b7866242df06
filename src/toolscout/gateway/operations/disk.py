"""Whether the state folder can still be written to."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# As much as one row of the journal may need.
_PROBE_BYTES = 16_384
# Probes may ask for the health many times a second.
_INTERVAL_SECONDS = 5.0


class DiskCheck:
    """Writes a little to a folder now and then, to notice a full disk before a call does."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._checked_at = float("-inf")
        self._problem = ""

    def __call__(self) -> str:
        """Why the folder cannot be written to; empty if it can."""
        now = self._clock()
        if now - self._checked_at >= _INTERVAL_SECONDS:
            self._checked_at = now
            self._problem = self._probe()
        return self._problem

    def _probe(self) -> str:
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=self._folder) as file:
                file.write(bytes(_PROBE_BYTES))
        except OSError as error:
            return f"The state folder {self._folder} cannot be written to: {error.strerror}."
        return ""
