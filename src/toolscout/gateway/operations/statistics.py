"""Count calls, searches and saved tokens by the hour, in figures that outlive the gateway."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event as Signal
from threading import Lock, Thread
from uuid import uuid4

from ...errors import StoreError
from ...events import DiscoveryResultEvent, Event, ToolCallEvent
from ...store.contract import Clock
from ...store.optional_use import OptionalUse
from .statistics_record import Tally
from .statistics_report import StatisticsReport, TimeRange, read_report
from .statistics_store import HOURS, StatisticsBatch, StatisticsStore

SAVE_SECONDS = 2.0
"""How long counts stay in the process at most; a kill loses no more."""

# While the store is away, counts are kept for so many hours.
_MAX_PENDING_HOURS = 48
_FAILURE = "Statistics are written later"


class CallStatistics:
    """A thread-safe sink that counts in memory, and adds to the store in the background."""

    def __init__(
        self, open_store: Callable[[], StatisticsStore], *, clock: Clock = time.time
    ) -> None:
        self._open_store = open_store
        self._clock = clock
        self._guard = Lock()  # of what is counted
        self._turn = Lock()  # one thread at a time uses the store
        self._pending: dict[int, Tally] = {}
        self._waiting: list[StatisticsBatch] = []
        self._store: StatisticsStore | None = None
        self._use = OptionalUse(_FAILURE)
        self._thread: Thread | None = None
        self._has_work, self._is_closed = Signal(), Signal()
        self._next_expiry = 0.0

    def __call__(self, event: Event) -> None:
        """Count one event; a call that its caller cancelled is not an error."""
        match event:
            case ToolCallEvent():
                is_error = event.is_error and event.code != "cancelled"
                name = event.server, event.tool
                with self._guard:
                    self._tally().add_call(name, event.took_ms, is_error=is_error)
            case DiscoveryResultEvent():
                with self._guard:
                    self._tally().add_search(event.took_ms, is_error=event.is_error)
            case _:
                return
        self._wake()

    def add_tokens_saved(self, tokens: int) -> None:
        """Count saved tokens; the text of a search result is a negative number of them."""
        with self._guard:
            self._tally().tokens_saved += tokens
        self._wake()

    def report(
        self, time_range: TimeRange, *, server: str = "", tool: str = ""
    ) -> StatisticsReport:
        """The figures of all gateways and workers, with those of this process until now."""
        self.save()
        with self._turn:
            store = self._get_store()
        return read_report(store, time_range, now=self._clock(), server=server, tool=tool)

    def save(self) -> None:
        """Add what was counted to the store; what cannot be added is tried again later."""
        with self._turn:
            self._use.run(self._write, None)

    def close(self) -> None:
        """Write what is not in the store yet."""
        self._is_closed.set()
        self._has_work.set()
        if self._thread is not None:
            self._thread.join()
        with self._turn, suppress(StoreError):  # the last attempt, also after a failure
            self._write()
        if self._store is not None:
            self._store.close()

    def _tally(self) -> Tally:
        """The counts of this hour; the lock is held."""
        hour = HOURS.start_of(self._clock())
        tally = self._pending.get(hour)
        if tally is None:
            tally = self._pending[hour] = Tally()
            for old in sorted(self._pending)[:-_MAX_PENDING_HOURS]:
                del self._pending[old]
        return tally

    def _wake(self) -> None:
        if self._has_work.is_set():
            return
        self._has_work.set()
        with self._guard:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="toolscout-statistics", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._has_work.wait() and not self._is_closed.wait(SAVE_SECONDS):
            self._has_work.clear()
            self.save()
            if self._waiting or self._pending:
                self._has_work.set()

    def _write(self) -> None:
        store = self._get_store()
        # First what failed before: until it is written, the rest is counted in memory.
        self._write_batches(store)
        with self._guard:
            pending, self._pending = self._pending, {}
        self._waiting = [
            StatisticsBatch(uuid4().hex[:12], hour, tally) for hour, tally in pending.items()
        ]
        self._write_batches(store)
        if self._clock() >= self._next_expiry:
            self._next_expiry = self._clock() + HOURS.seconds
            store.expire()

    def _write_batches(self, store: StatisticsStore) -> None:
        while self._waiting:
            store.add(self._waiting[0])
            del self._waiting[0]

    def _get_store(self) -> StatisticsStore:
        if self._store is None:
            self._store = self._open_store()
        return self._store
