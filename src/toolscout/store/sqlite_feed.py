"""A change feed for the processes of one machine, in an SQLite file of its own."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Lock

from .change_feed import KEPT_SECONDS, Change
from .polled_feed import MAX_READ, PolledFeed
from .sqlite import translate_errors
from .sqlite_side_file import SideFile

POLL_SECONDS = 0.02
"""How often the file is looked at: one read of a counter, without a lock."""

_WRITES_PER_PRUNING = 100
_FILE = SideFile(
    # "scoc" in ASCII: distinguishes the file from stores and journals.
    application_id=0x73636F63,
    migrations=(
        (
            """CREATE TABLE changes (
                sequence INTEGER PRIMARY KEY AUTOINCREMENT,
                time REAL NOT NULL,
                topic TEXT NOT NULL,
                payload TEXT NOT NULL
            )""",
        ),
    ),
    busy_timeout_seconds=2.5,
    synchronous="NORMAL",
)


class SqliteChanges:
    """The table of changes in its file; it is a file of its own so that polls ignore sessions."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._seen_version = -1
        self._writes = 0
        self._lock = Lock()
        self._woken = Event()

    def append(self, topic: str, payload: str) -> None:
        """Add a change."""
        with self._lock, translate_errors(self.path):
            self._writer = self._writer or _FILE.connect(self.path)
            now = time.time()
            self._writer.execute(
                "INSERT INTO changes (time, topic, payload) VALUES (?, ?, ?)", (now, topic, payload)
            )
            self._writes += 1
            if self._writes % _WRITES_PER_PRUNING == 0:
                self._writer.execute("DELETE FROM changes WHERE time < ?", (now - KEPT_SECONDS,))

    def newest(self) -> int:
        """The sequence of the last change in the table, 0 if it is empty."""
        return self._select_number("SELECT max(sequence) FROM changes")

    def highest(self) -> int:
        """The highest sequence that any change has got."""
        return self._select_number("SELECT max(seq) FROM sqlite_sequence")

    def read(self, after: int) -> Sequence[tuple[int, Change]]:
        """Up to `MAX_READ` changes after a sequence, oldest first."""
        query = (
            "SELECT sequence, topic, payload FROM changes WHERE sequence > ?"
            " ORDER BY sequence LIMIT ?"
        )
        with translate_errors(self.path):
            rows = self._open_reader().execute(query, (after, MAX_READ)).fetchall()
        return [(sequence, Change(topic, payload)) for sequence, topic, payload in rows]

    def wait(self) -> None:
        """Wait until another connection has written."""
        while not self._woken.is_set():
            with translate_errors(self.path):
                (version,) = self._open_reader().execute("PRAGMA data_version").fetchone()
            if version != self._seen_version:
                self._seen_version = version
                return
            self._woken.wait(POLL_SECONDS)

    def wake(self) -> None:
        """End a wait at once."""
        self._woken.set()

    def reconnect(self) -> None:
        """Close the connection that reads."""
        reader, self._reader = self._reader, None
        self._seen_version = -1
        if reader is not None:
            reader.close()

    def close(self) -> None:
        """Close the file."""
        self.reconnect()
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.close()

    def _select_number(self, query: str) -> int:
        with translate_errors(self.path):
            (number,) = self._open_reader().execute(query).fetchone()
        return int(number or 0)

    def _open_reader(self) -> sqlite3.Connection:
        self._reader = self._reader or _FILE.connect(self.path)
        return self._reader


def open_sqlite_feed(path: str | Path) -> PolledFeed:
    """The feed of all processes that name this file."""
    return PolledFeed(SqliteChanges(path))
