"""Keep the journal within its limits, in its own thread and in small batches."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from threading import Event as Flag
from threading import Thread

from ..errors import StoreError
from ..store.contract import Clock
from ..store.log_contract import LogStore

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """How long rows are kept and how many; None means no limit."""

    max_age_seconds: float | None = None
    max_rows: int | None = None
    max_bytes: int | None = None


def prune_log(store: LogStore, limits: LogLimits, *, now: float) -> int:
    """Delete one batch of rows beyond the limits; 0 when all is within them."""
    age = limits.max_age_seconds
    return store.prune(
        older_than=None if age is None else now - age,
        max_rows=limits.max_rows,
        max_bytes=limits.max_bytes,
    )


class Retention:
    """A thread that prunes when it is woken, and sleeps otherwise."""

    def __init__(self, store: LogStore, limits: LogLimits, *, clock: Clock) -> None:
        self._store = store
        self._limits = limits
        self._clock = clock
        self._due = Flag()
        self._stopping = Flag()
        self._thread = Thread(target=self._run, name="toolscout-journal", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Prune soon, without waiting for it."""
        self._due.set()

    def stop(self) -> None:
        """End the thread after its current batch."""
        self._stopping.set()
        self._due.set()
        self._thread.join()

    def _run(self) -> None:
        while self._due.wait() and not self._stopping.is_set():
            self._due.clear()
            try:
                # The pause lets writers of other processes in between two batches.
                while prune_log(self._store, self._limits, now=self._clock()):
                    if self._stopping.wait(_PAUSE_SECONDS):
                        return
            except StoreError as error:
                # Writing has the same problem and reports it; here pruning only happens later.
                _log.debug("The journal was not pruned: %s", error)
