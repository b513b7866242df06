"""Stream events in an SQLite file, for the workers of one machine."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from .sqlite import translate_errors
from .sqlite_side_file import SideFile
from .stream_events import EventLimits, StoredEvent, find_long_streams

_FILE = SideFile(
    # "scoe" in ASCII: distinguishes the file from stores, journals and feeds.
    application_id=0x73636F65,
    migrations=(
        (
            """CREATE TABLE events (
                sequence INTEGER PRIMARY KEY AUTOINCREMENT,
                stream TEXT NOT NULL,
                number INTEGER NOT NULL,
                time REAL NOT NULL,
                bytes INTEGER NOT NULL,
                data BLOB NOT NULL,
                UNIQUE (stream, number)
            )""",
            "CREATE INDEX events_by_age ON events (time, sequence, bytes)",
        ),
    ),
    busy_timeout_seconds=2.5,
    synchronous="OFF",
)
_INSERT = "INSERT OR IGNORE INTO events (stream, number, time, bytes, data) VALUES (?, ?, ?, ?, ?)"
# The first event describes the stream, and stays.
_SHORTEN = "DELETE FROM events WHERE stream = ? AND number > 0 AND number < ?"
_SELECT = "SELECT number, data FROM events WHERE stream = ? AND time > ? ORDER BY number"
_DELETE_OLDEST = """
    DELETE FROM events WHERE sequence IN (
        SELECT sequence FROM (
            SELECT sequence, row_number() OVER newest AS place, sum(bytes) OVER newest AS taken
            FROM events WINDOW newest AS (ORDER BY time DESC, sequence DESC)
        ) WHERE place > ? OR taken > ?
    )"""


class SqliteEvents:
    """Events of all processes that name this file."""

    def __init__(self, path: str | Path, *, limits: EventLimits | None = None) -> None:
        self.path = Path(path)
        self._limits = limits or EventLimits()
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    def append(self, events: Sequence[StoredEvent]) -> None:
        """Add events; one that is there already is not replaced."""
        now = time.time()
        rows = [(e.stream, e.number, now, len(e.data), e.data) for e in events]
        with self._lock, translate_errors(self.path):
            sql = self._connect()
            sql.execute("BEGIN IMMEDIATE")
            try:
                sql.executemany(_INSERT, rows)
                sql.executemany(_SHORTEN, find_long_streams(events).items())
            except BaseException:
                if sql.in_transaction:
                    sql.execute("ROLLBACK")
                raise
            sql.execute("COMMIT")

    def read(self, stream: str) -> tuple[StoredEvent, ...]:
        """The events of a stream that are kept, oldest first."""
        with self._lock, translate_errors(self.path):
            rows = self._connect().execute(_SELECT, (stream, self._oldest())).fetchall()
        return tuple(StoredEvent(stream, number, data) for number, data in rows)

    def prune(self) -> int:
        """Delete what is over the limits, the oldest first; how many events that were."""
        values = (self._limits.max_events, self._limits.max_bytes)
        with self._lock, translate_errors(self.path):
            sql = self._connect()
            deleted = sql.execute("DELETE FROM events WHERE time <= ?", (self._oldest(),)).rowcount
            return deleted + sql.execute(_DELETE_OLDEST, values).rowcount

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _connect(self) -> sqlite3.Connection:
        self._connection = self._connection or _FILE.connect(self.path)
        return self._connection

    def _oldest(self) -> float:
        return time.time() - self._limits.max_age_seconds
