"""The journal: a sink that keeps a row of each relevant event, and never fails a call."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Literal

from ..config import Config
from ..errors import DamagedStoreError, StoreError
from ..events import Event, new_id
from ..store.contract import Clock
from ..store.factory import open_log
from ..store.log_contract import LogRow, LogStore
from ..store.processes import current_process
from .retention import LogLimits, Retention
from .rows import OPEN_KINDS, RecordLevel, RowReader, encode_data

_log = logging.getLogger(__name__)
_WRITES_PER_PRUNING = 100
_SECONDS_PER_DAY = 86_400
_BYTES_PER_MB = 1_000_000
# While a log fails it is tried less and less often, so that calls do not wait for it each time.
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 5.0
_MAX_LATE_OUTCOMES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalStatus:
    """Whether rows are written; `missed` counts those that were not, since the last gap row."""

    status: Literal["ok", "degraded", "off"]
    reason: str = ""
    missed: int = 0


@dataclass(slots=True)
class _Gap:
    """Rows that could not be written, until a row in the journal records them.

    `late` counts outcomes that were held in memory and written afterwards.
    """

    since: float
    reason: str
    missed: int = 0
    late: int = 0
    pause_seconds: float = _FIRST_PAUSE_SECONDS
    retry_at: float = 0.0


class Journal:
    """A sink for events; calls continue if the log cannot be written.

    Missed rows are counted, `status` reports them, and a `gap` row records them as soon as writing
    works again. Only outcomes of calls are held in memory until then. `audit_file` names the file
    that has a line for each of these rows, if there is one.
    """

    def __init__(
        self,
        store: LogStore,
        *,
        record: RecordLevel = "shape",
        limits: LogLimits | None = None,
        audit_file: str = "",
        clock: Clock = time.time,
    ) -> None:
        self.store = store
        self._is_on = record != "off"
        self._reader = RowReader(record=record, audit_file=audit_file)
        self._clock = clock
        self._gap: _Gap | None = None
        # Outcomes of calls whose first row was written. They are small and worth keeping.
        self._late_outcomes: dict[str, LogRow] = {}
        self._writes = 0
        self._lock = Lock()
        self._retention = (
            Retention(store, limits or LogLimits(), clock=clock) if self._is_on else None
        )

    @classmethod
    def open(cls, config: Config, *, audit_file: str = "", clock: Clock = time.time) -> Journal:
        """The journal that the settings describe."""
        limits = LogLimits(
            max_age_seconds=config.journal_days * _SECONDS_PER_DAY or None,
            max_bytes=int(config.journal_max_mb * _BYTES_PER_MB),
        )
        return cls(
            open_log(config),
            record=config.record,
            limits=limits,
            audit_file=audit_file,
            clock=clock,
        )

    @property
    def status(self) -> JournalStatus:
        """Whether rows are written at the moment, for health checks."""
        with self._lock:
            if not self._is_on:
                return JournalStatus(status="off")
            if self._gap is None:
                return JournalStatus(status="ok")
            gap = self._gap
            return JournalStatus(status="degraded", reason=gap.reason, missed=gap.missed)

    def __call__(self, event: Event) -> None:
        """Write the row of an event, if it has one."""
        if not self._is_on:
            return
        with self._lock:
            row = self._reader.read(event)
            if row is not None:
                self._write(row)

    def close(self) -> None:
        """Stop pruning, record a gap that is still open if possible, and close the log."""
        if self._retention is not None:
            self._retention.stop()
        with self._lock:
            if self._gap is not None:
                self._attempt(lambda: None)
            self._is_on = False
            self.store.close()

    def _write(self, row: LogRow) -> None:
        gap = self._gap
        if gap is not None and self._clock() < gap.retry_at:
            self._miss(row)
        elif self._attempt(lambda: self._store_row(row)):
            # The first write too: old rows may be due by then.
            if self._retention is not None and self._writes % _WRITES_PER_PRUNING == 0:
                self._retention.wake()
            self._writes += 1
        else:
            self._miss(row)

    def _attempt(self, write: Callable[[], None]) -> bool:
        """Record an open gap, then write; False if that does not work."""
        try:
            try:
                self._close_gap()
                write()
            except DamagedStoreError as error:
                self._start_again(error)
                write()
        except StoreError as error:
            self._open_gap(error)
            return False
        return True

    def _store_row(self, row: LogRow) -> None:
        if row.kind in OPEN_KINDS and row.outcome is not None:
            _complete(self.store, row)
        else:
            self.store.append(row)

    def _miss(self, row: LogRow) -> None:
        assert self._gap is not None
        is_end = row.kind in OPEN_KINDS and row.outcome is not None
        if is_end and len(self._late_outcomes) < _MAX_LATE_OUTCOMES:
            self._late_outcomes[row.id] = row
        else:
            self._gap.missed += 1

    def _open_gap(self, error: StoreError) -> None:
        now = self._clock()
        if self._gap is None:
            self._gap = _Gap(since=now, reason=str(error))
            _log.warning("The journal lacks rows: %s", error)
        self._gap.reason = str(error)
        self._gap.retry_at = now + self._gap.pause_seconds
        self._gap.pause_seconds = min(_MAX_PAUSE_SECONDS, 2 * self._gap.pause_seconds)

    def _close_gap(self) -> None:
        gap = self._gap
        if gap is None:
            return
        for id, row in list(self._late_outcomes.items()):  # noqa: A001 - as rows call it
            # A call whose start was missed is complete after all.
            if not _complete(self.store, row):
                gap.missed = max(0, gap.missed - 1)
            del self._late_outcomes[id]
            gap.late += 1
        self._append_gap(gap)
        self._gap = None
        _log.info("The journal is written again.")

    def _start_again(self, error: DamagedStoreError) -> None:
        """Rename a damaged log and record that in the new one."""
        aside = self.store.set_aside()
        if aside:
            _log.warning("The journal was damaged and is now %s; a new one is started.", aside)
            reason = f"{error.message} It is kept as {aside}; earlier rows are there."
            self._gap = self._gap or _Gap(since=self._clock(), reason=reason)
            self._gap.reason = reason
        self._close_gap()

    def _append_gap(self, gap: _Gap) -> None:
        now = self._clock()
        data = {
            "from": gap.since,
            "to": now,
            "missing": gap.missed,
            "late": gap.late,
            "reason": gap.reason,
        }
        self.store.append(
            LogRow(
                id=new_id(),
                time=now,
                kind="gap",
                outcome="missing" if gap.missed else "late",
                process=current_process(),
                data=encode_data(data),
            )
        )


def _complete(store: LogStore, row: LogRow) -> bool:
    """Set the outcome of a call; if its start was not recorded, add the whole row: False."""
    assert row.outcome is not None
    if store.complete(row.id, outcome=row.outcome, took_ms=row.took_ms, parent=row.parent):
        return True
    store.append(row)
    return False
