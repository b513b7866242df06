"""Audit file: a view of the journal with one JSON line per call, for people and log shippers."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from ...errors import StoreError
from ...events import Event
from ...journal.reading import RUNNING, UNKNOWN, current_outcome, row_data
from ...journal.rows import RowReader
from ...store.file_lock import hold_file_lock
from ...store.log_contract import LogFilter, LogRow, LogStore
from ...telemetry.forwarding import ForwardedLine
from .rotation import RotationLimits, rotate_file

log = logging.getLogger(__name__)
_KINDS = frozenset({"call", "read", "search", "refusal"})
_SESSION_CHARS = 12
# How far back a file and a journal are compared when they are opened.
_TAIL_BYTES = 4 << 20
_MAX_RECOVERED_ROWS = 10_000
_LONGEST_CALL_SECONDS = 3_600.0
_OUT_OF_ORDER_SECONDS = 1.0
_ROUNDING_SECONDS = 0.001
_RECOVERY_LOCK_SECONDS = 10.0


class AuditFile:
    """A sink that appends lines to a file that only its owner can read, and forwards them.

    Without a path there is no file.
    Place it behind the journal: then a process that is killed between the two has a row without a
    line, which `recover` adds.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        rotation: RotationLimits | None = None,
        forward: Callable[[ForwardedLine], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self._rotation = rotation or RotationLimits()
        self._forward = forward
        self._clock = clock
        self._reader = RowReader()
        self._lock = Lock()
        self.is_failing = False

    def __call__(self, event: Event) -> None:
        """Write the line of a call, a search, a read or a refusal when it is over."""
        if self.path is None and self._forward is None:
            return
        with self._lock:
            row = self._reader.read(event)
        if row is not None and row.kind in _KINDS and row.outcome is not None:
            self._publish(row, row.outcome)

    def write(self, **facts: Any) -> None:
        """Append a line with these facts and the current time."""
        self._append({"time": round(self._clock(), 3), **facts})

    def recover(self, store: LogStore) -> int:
        """Add the lines that ended processes did not write; returns how many there were.

        A call without an outcome gets a line with `unknown`, and keeps it in the journal too.
        """
        if self.path is None:
            return 0
        lock = self.path.with_name(f".{self.path.name}.recovery.lock")
        try:
            # Workers start at the same time, and would add the same lines.
            with hold_file_lock(lock, timeout_seconds=_RECOVERY_LOCK_SECONDS):
                return self._recover(store)
        except (StoreError, OSError) as error:
            log.warning("The audit file %s may lack lines: %s", self.path, error)
            return 0

    def _recover(self, store: LogStore) -> int:
        # Compared as whole lines, since a line has no id. Two calls may have equal lines.
        present = Counter(self._tail())
        added = 0
        for row in self._rows_without_process(store, present):
            line = audit_line(row, row.outcome or UNKNOWN)
            text = _encode(line)
            if present[text]:
                present[text] -= 1
            elif self._publish(row, row.outcome or UNKNOWN):
                added += 1
            # From now on the row is complete. A later start, with a new file after log rotation,
            # does not add its line again.
            if row.outcome is None:
                store.complete(row.id, outcome=UNKNOWN)
        return added

    def _rows_without_process(self, store: LogStore, present: Counter[str]) -> list[LogRow]:
        """Rows that should have a line in this file and whose process can no longer write it."""
        rows = store.read(LogFilter(is_open=True), limit=_MAX_RECOVERED_ROWS)
        times = [json.loads(line).get("time") for line in present]
        known = [t for t in times if isinstance(t, int | float)]
        ours = [row for row in rows if self._has_line_here(row)]
        if known:
            ours += self._covered_rows(store, first=min(known))
        now = self._clock()
        # For a complete row, only check whether its process runs.
        gone = (r for r in ours if current_outcome(replace(r, outcome=None), now=now) != RUNNING)
        return sorted(gone, key=lambda row: row.sequence)

    def _covered_rows(self, store: LogStore, *, first: float) -> list[LogRow]:
        """Complete rows whose lines cannot have been rotated away, given the file's first time."""
        recent = LogFilter(is_open=False, since=first - _LONGEST_CALL_SECONDS)
        rows = store.read(recent, limit=_MAX_RECOVERED_ROWS)
        ours = [row for row in rows if self._has_line_here(row)]
        before = [row for row in ours if _end_time(row) < first - _ROUNDING_SECONDS]
        # Lines of calls that ran at the same time are not quite in the order of their times.
        start = first + _OUT_OF_ORDER_SECONDS if before else first - _ROUNDING_SECONDS
        return [row for row in ours if _end_time(row) >= start]

    def _has_line_here(self, row: LogRow) -> bool:
        return row.kind in _KINDS and row_data(row).get("audit") == str(self.path)

    def _tail(self) -> list[str]:
        """The last whole lines of the file."""
        assert self.path is not None
        try:
            with self.path.open("rb") as file:
                start = max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES)
                file.seek(start)
                lines = file.read().decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return []
        return [line for line in lines[1 if start else 0 :] if _is_object(line)]

    def _publish(self, row: LogRow, outcome: str) -> bool:
        """Append the line of a row and forward it; whether the file has it."""
        line = audit_line(row, outcome)
        is_written = self._append(line)
        if self._forward is not None:
            facts = {"id": row.id, **line}
            is_ok = outcome == "ok"
            self._forward(ForwardedLine(time=line["time"], kind=row.kind, is_ok=is_ok, facts=facts))
        return is_written

    def _append(self, line: Mapping[str, Any]) -> bool:
        """Append one line; a file that cannot be written is reported, and calls continue."""
        if self.path is None:
            return False
        try:
            with self._lock:
                rotate_file(self.path, self._rotation)
                _append_text(self.path, _encode(line))
        except OSError as error:
            # Logged once; `/health` shows it for as long as it lasts.
            if not self.is_failing:
                log.warning("The audit log %s cannot be written: %s", self.path, error)
            self.is_failing = True
            return False
        self.is_failing = False
        return True


def audit_line(row: LogRow, outcome: str) -> dict[str, Any]:
    """The line of a row: always the same for the same row, so that it can be looked for."""
    took_ms = row.took_ms or 0.0
    data = row_data(row)
    method = {key: data[key] for key in ("method", "times") if data.get(key)}
    return {
        "time": round(_end_time(row), 3),
        "principal": row.principal or "anonymous",
        "session": row.session[:_SESSION_CHARS],
        "tool": row.tool,
        "server": row.server,
        "arguments": data.get("shape", {}),
        **method,
        "outcome": outcome,
        "took_ms": round(took_ms, 1),
    }


def _end_time(row: LogRow) -> float:
    return row.time + (row.took_ms or 0.0) / 1_000


def _encode(line: Mapping[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))


def _append_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # O_APPEND keeps the lines of several gateways apart. Opening the file for each line lets log
    # rotation move it away at any time.
    # Windows would write two bytes at each end of a line without O_BINARY.
    binary = getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | binary, 0o600)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        data = f"{text}\n".encode("utf-8", "replace")
        # A process that was killed, or a full disk, may have left half a line.
        if _is_torn(file.fileno()):
            data = b"\n" + data
        if file.write(data) != len(data):
            raise OSError(f"only a part of the line could be written to {path}")


def _is_torn(descriptor: int) -> bool:
    """Whether a file ends in the middle of a line."""
    size = os.fstat(descriptor).st_size
    if not size:
        return False
    os.lseek(descriptor, -1, os.SEEK_END)
    return os.read(descriptor, 1) != b"\n"


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
