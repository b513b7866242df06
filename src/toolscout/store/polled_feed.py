"""A change feed over a table of changes that several processes read."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from threading import Event, Lock, Thread
from typing import Protocol

from ..errors import StoreError
from .change_feed import (
    KEPT_SECONDS,
    MISSED,
    Callback,
    Change,
    MemoryFeed,
    Unsubscribe,
    check_change,
)

MAX_READ = 1_000
"""How many changes are read at once."""

_RETRY_SECONDS = 0.2
_CLOSE_SECONDS = 5.0
_log = logging.getLogger(__name__)


class ChangeTable(Protocol):
    """Changes with a sequence that only grows; failures raise StoreError.

    All methods but `append` and `wake` are called by one thread.
    """

    def append(self, topic: str, payload: str) -> None:
        """Add a change."""
        ...

    def newest(self) -> int:
        """The sequence of the last change in the table, 0 if it is empty."""
        ...

    def highest(self) -> int:
        """The highest sequence that any change has got, deleted ones included."""
        ...

    def read(self, after: int) -> Sequence[tuple[int, Change]]:
        """Up to `MAX_READ` changes after a sequence, oldest first."""
        ...

    def wait(self) -> None:
        """Wait until there may be more changes, and now and then in any case."""
        ...

    def wake(self) -> None:
        """End a wait at once."""
        ...

    def reconnect(self) -> None:
        """Drop the connection after a failure; the next use opens another."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


class PolledFeed:
    """Reads a table of changes in a thread of its own, which the first subscription starts.

    What a lost connection or a lost notification did not deliver is found in the table.
    """

    def __init__(self, table: ChangeTable) -> None:
        self._table = table
        self._subscribers = MemoryFeed()
        self._lock = Lock()
        self._over = Event()
        self._is_started = Event()
        self._thread: Thread | None = None
        # None until the table was read for the first time.
        self._last: int | None = None
        self._read_at = time.monotonic()

    def publish(self, topic: str, payload: str = "") -> None:
        """Write a change to the table, which notifies the others."""
        check_change(topic, payload)
        if self._over.is_set():
            raise StoreError("The change feed is closed.", hint="Open a new one.")
        self._table.append(topic, payload)

    def subscribe(self, callback: Callback) -> Unsubscribe:
        """Get every change from now on; the answer ends it."""
        if self._over.is_set():
            raise StoreError("The change feed is closed.", hint="Open a new one.")
        unsubscribe = self._subscribers.subscribe(callback)
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="toolscout-changes", daemon=True)
                self._thread.start()
        # Until the position in the table is known, or cannot be: then MISSED follows.
        self._is_started.wait()
        return unsubscribe

    def close(self) -> None:
        """End all subscriptions."""
        with self._lock:
            if self._over.is_set():
                return
            self._over.set()
        self._subscribers.close()
        self._table.wake()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)
        self._table.close()

    def _run(self) -> None:
        is_failing = False
        while not self._over.is_set():
            try:
                self._catch_up(was_failing=is_failing)
                self._is_started.set()
                is_failing = False
                self._table.wait()
            except StoreError as error:
                if self._over.is_set():
                    return
                if not is_failing:
                    _log.warning("Changes of other processes are delayed: %s", error)
                is_failing = True
                self._is_started.set()
                self._table.reconnect()
                self._over.wait(_RETRY_SECONDS)

    def _catch_up(self, *, was_failing: bool) -> None:
        if self._last is None:
            self._last = self._table.newest()
            if was_failing:
                self._subscribers.deliver(MISSED)
        elif was_failing and self._has_lost_changes(self._last):
            self._last = self._table.newest()
            self._subscribers.deliver(MISSED)
        while changes := self._table.read(self._last):
            for sequence, change in changes:
                self._last = sequence
                self._subscribers.deliver(change)
        self._read_at = time.monotonic()

    def _has_lost_changes(self, last: int) -> bool:
        # The changes of a long absence have been deleted. A sequence that went back means that the
        # table was restored from a backup, or that a standby took over without the last changes.
        is_late = time.monotonic() - self._read_at > KEPT_SECONDS / 2
        return is_late or self._table.highest() < last
