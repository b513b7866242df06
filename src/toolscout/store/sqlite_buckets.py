"""Token buckets in an SQLite file, so that the processes of one machine enforce one limit."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from threading import Lock

from .contract import check_entry
from .rate_limits import MAX_BUCKETS, Bucket
from .sqlite import translate_errors
from .sqlite_side_file import SideFile

_FILE = SideFile(
    # "scob" in ASCII: distinguishes the file from stores, journals and feeds.
    application_id=0x73636F62,
    migrations=(
        ("CREATE TABLE buckets (key TEXT PRIMARY KEY, tokens REAL NOT NULL, time REAL NOT NULL)",),
    ),
    # Callers wait for the answer before anything else, so it is better to count alone for a while.
    busy_timeout_seconds=0.5,
    # A power cut only makes the buckets full again.
    synchronous="OFF",
)
_PUT = "INSERT OR REPLACE INTO buckets (key, tokens, time) VALUES (?, ?, ?)"
_DROP_OLDEST = """DELETE FROM buckets WHERE key IN (
    SELECT key FROM buckets ORDER BY time DESC, rowid DESC LIMIT -1 OFFSET ?)"""


class SqliteBuckets:
    """Buckets of all processes that name this file; `now` has to be a clock that they share."""

    def __init__(self, path: str | Path, *, capacity: int = MAX_BUCKETS) -> None:
        self.path = Path(path)
        self._capacity = capacity
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._uses = 0

    def take(self, key: str, *, per_second: float, capacity: float, now: float) -> float:
        """Take one token; the seconds to wait if there is none, or else 0."""
        check_entry(key)
        with self._lock, translate_errors(self.path):
            self._connection = self._connection or _FILE.connect(self.path)
            sql = self._connection
            # The write lock comes before the read: two processes cannot take the same token.
            sql.execute("BEGIN IMMEDIATE")
            try:
                known = self._read(key, Bucket(capacity, now))
                bucket = known.refill(per_second=per_second, capacity=capacity, now=now)
                is_granted = bucket.tokens >= 1
                left = bucket.tokens - 1 if is_granted else bucket.tokens
                sql.execute(_PUT, (key, left, bucket.time))
                self._drop_oldest()
            except BaseException:
                if sql.in_transaction:
                    sql.execute("ROLLBACK")
                raise
            sql.execute("COMMIT")
        return 0.0 if is_granted else (1 - left) / per_second

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _read(self, key: str, full: Bucket) -> Bucket:
        assert self._connection is not None
        query = "SELECT tokens, time FROM buckets WHERE key = ?"
        row = self._connection.execute(query, (key,)).fetchone()
        return Bucket(*row) if row else full

    def _drop_oldest(self) -> None:
        assert self._connection is not None
        self._uses += 1
        # Now and then is enough: the table may exceed the limit by a tenth.
        if self._uses % max(1, self._capacity // 10) == 0:
            self._connection.execute(_DROP_OLDEST, (self._capacity,))
