"""The vector cache on disk, keyed by model and text; it can be deleted at any time."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from threading import Lock

import numpy as np

from ..arrays import Floats

# SQLite allows at most 999 parameters per statement in versions before 3.32.
_KEYS_PER_QUERY = 500
# After so many failures because of locks the cache is no longer used: computing vectors again is
# better than waiting for another process at every search.
_MAX_BUSY_FAILURES = 3


def vector_key(model: str, texts: Iterable[tuple[str, float]]) -> bytes:
    """The key of a vector: a hash of the model and of all texts with their shares."""
    parts = "\0".join(f"{share:g}\1{text}" for text, share in texts)
    return hashlib.blake2b(f"{model}\0{parts}".encode(errors="replace"), digest_size=16).digest()


class VectorCache:
    """A SQLite file of vectors that any number of processes can share.

    A broken file is not used, and neither is one that stays locked: `problem` then says why, and
    the search goes on without the cache.
    """

    def __init__(self, path: str | Path, *, wait_seconds: float = 2.0) -> None:
        self.path = Path(path)
        self.problem = ""
        self._wait_seconds = wait_seconds
        self._failures_left = _MAX_BUSY_FAILURES
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Floats]:
        """The known vectors by key."""
        found: dict[bytes, Floats] = {}
        ordered = sorted(keys)  # in the order of the file, so that each page is read once
        with self._lock, self._use_connection() as connection:
            if connection is None:
                return {}
            for start in range(0, len(ordered), _KEYS_PER_QUERY):
                batch = ordered[start : start + _KEYS_PER_QUERY]
                marks = ",".join("?" * len(batch))  # only question marks, never values
                select = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608
                found |= _decode_rows(connection.execute(select, batch).fetchall())
        return found

    def put(self, vectors: Iterable[tuple[bytes, Floats]]) -> None:
        """Store vectors; a failure is recorded in `problem` and not raised."""
        rows = [(k, v.astype(np.float16).tobytes()) for k, v in vectors]
        with self._lock, self._use_connection() as connection:
            if connection is not None:
                with connection:
                    connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._disconnect()

    @contextmanager
    def _use_connection(self) -> Generator[sqlite3.Connection | None]:
        """The open connection, or None if the cache is unusable; records failures in the block."""
        connection = None
        try:
            if self._failures_left > 0:
                connection = self._open()
        except (sqlite3.Error, OSError) as error:
            self._record_failure(error)
        try:
            yield connection
        except (sqlite3.Error, OSError) as error:
            self._record_failure(error)

    def _record_failure(self, error: Exception) -> None:
        self.problem = f"The vector cache {self.path.name} cannot be used: {error}"
        # A lock may be released; a file that is broken or not writable will stay so.
        self._failures_left -= 1 if _is_busy(error) else _MAX_BUSY_FAILURES
        self._disconnect()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(
                self.path, timeout=self._wait_seconds, check_same_thread=False
            )
            self._connection = connection
            # With a write-ahead log, readers in other processes do not block a writer. NORMAL may
            # lose the last vectors in a power failure, but never breaks the file.
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)"
                " WITHOUT ROWID"
            )
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _decode_rows(rows: Sequence[tuple[bytes, object]]) -> dict[bytes, Floats]:
    """The vectors of some rows; rows that are not vectors are left out."""
    valid = [(k, v) for k, v in rows if isinstance(v, bytes) and v and not len(v) % 2]
    # Converted all at once and then sliced: faster than one conversion per vector.
    numbers = np.frombuffer(b"".join([v for _, v in valid]), np.float16).astype(np.float32)
    ends = list(accumulate([len(v) // 2 for _, v in valid]))
    found = {k: numbers[b - len(v) // 2 : b] for (k, v), b in zip(valid, ends, strict=True)}
    if np.isfinite(numbers).all():
        return found
    return {k: vector for k, vector in found.items() if np.isfinite(vector).all()}


def _is_busy(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    # The low byte is the primary code; the rest details it (SQLITE_BUSY_SNAPSHOT and others).
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
