"""A limit on repeated log lines: a flood of requests must not fill the disk."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

# Lines of one kind in one window; the rest are counted.
_MAX_LINES = 20
_WINDOW_SECONDS = 60.0
_MAX_KINDS = 1_000
# Texts of our own name servers and settings: each text is a kind. Those of libraries may contain
# what a stranger sent, so all lines from one place in the code are one kind.
_OWN = "toolscout"


@dataclass(slots=True)
class _Window:
    began: float
    lines: int = 0
    dropped: int = 0


class RepeatFilter(logging.Filter):
    """Lets some lines of each kind through, and says later how many it left out."""

    def __init__(
        self,
        *,
        max_lines: int = _MAX_LINES,
        window_seconds: float = _WINDOW_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._max_lines = max_lines
        self._window_seconds = window_seconds
        self._clock = clock
        self._windows: dict[tuple[str, int, str], _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to print a record; those below a warning are printed always."""
        if record.levelno < logging.WARNING:
            return True
        window = self._window(self._kind(record))
        window.lines += 1
        if window.lines <= self._max_lines:
            return True
        window.dropped += 1
        return False

    def _window(self, kind: tuple[str, int, str]) -> _Window:
        now = self._clock()
        known = self._windows.get(kind)
        if known is not None and now - known.began < self._window_seconds:
            return known
        if known is None and len(self._windows) >= _MAX_KINDS:
            self._windows.clear()
        self._windows[kind] = _Window(now)
        if known is not None and known.dropped:
            self._report(kind, known)
        return self._windows[kind]

    def _report(self, kind: tuple[str, int, str], window: _Window) -> None:
        # Through the logger and not the record: the record that came is printed unchanged.
        logging.getLogger(_OWN).warning(
            "%d more lines like %r were left out.", window.dropped, kind[2][:100]
        )

    @staticmethod
    def _kind(record: logging.LogRecord) -> tuple[str, int, str]:
        is_own = record.name.split(".")[0] == _OWN
        text = record.getMessage() if is_own else str(record.msg)[:60]
        return (record.name, record.levelno, text)
