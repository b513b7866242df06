"""Vectors on disk, by what was encoded and by which model; safe to delete at any time."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
_KEYS_PER_QUERY = 500
_TRIES = 3


def vector_key(model: str, texts: Iterable[tuple[str, float]]) -> bytes:
    """What a vector is kept under: the model, and all of the text with its shares."""
    parts = "\0".join(f"{share:g}\1{text}" for text, share in texts)
    return hashlib.blake2b(f"{model}\0{parts}".encode(errors="replace"), digest_size=16).digest()


class VectorCache:
    """A file of vectors that any number of processes share; a broken one is simply not used.

    One that others keep locked is let be after a few tries, since making vectors is no catastrophe.
    """

    def __init__(self, path: str | Path, *, wait_seconds: float = 2.0) -> None:
        self.path = Path(path)
        self.problem = ""
        self._wait_seconds = wait_seconds
        self._tries_left = _TRIES
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Floats]:
        """The vectors that are known, by key."""
        found: dict[bytes, Floats] = {}
        ordered = sorted(keys)  # as the file has them, so that each page is read once
        with self._lock, self._use_connection() as connection:
            if connection is None:
                return {}
            for start in range(0, len(ordered), _KEYS_PER_QUERY):
                some = ordered[start : start + _KEYS_PER_QUERY]
                marks = ",".join("?" * len(some))  # marks, never values
                wanted = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608
                found |= _decode_rows(connection.execute(wanted, some).fetchall())
        return found

    def put(self, vectors: Iterable[tuple[bytes, Floats]]) -> None:
        """Keep vectors for next time; failing to is no failure of the search."""
        rows = [(k, v.astype(np.float16).tobytes()) for k, v in vectors]
        with self._lock, self._use_connection() as connection:
            if connection is not None:
                with connection:
                    connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._disconnect()

    @contextmanager
    def _use_connection(self) -> Generator[sqlite3.Connection | None]:
        """The open file, or nothing once it has proved useless; failures inside are noted."""
        connection = None
        try:
            if self._tries_left > 0:
                connection = self._open()
        except (sqlite3.Error, OSError) as error:
            self._record_failure(error)
        try:
            yield connection
        except (sqlite3.Error, OSError) as error:
            self._record_failure(error)

    def _record_failure(self, error: Exception) -> None:
        self.problem = f"The vector cache {self.path.name} cannot be used: {error}"
        self._tries_left -= 1 if _is_busy(error) else _TRIES
        self._disconnect()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(
                self.path, timeout=self._wait_seconds, check_same_thread=False
            )
            self._connection = connection
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
    """Vectors as they were kept; whatever else stands there is as good as nothing."""
    sound = [(k, v) for k, v in rows if isinstance(v, bytes) and v and not len(v) % 2]
    numbers = np.frombuffer(b"".join([v for _, v in sound]), np.float16).astype(np.float32)
    ends = list(accumulate([len(v) // 2 for _, v in sound]))
    found = {k: numbers[b - len(v) // 2 : b] for (k, v), b in zip(sound, ends, strict=True)}
    if np.isfinite(numbers).all():
        return found
    return {k: vector for k, vector in found.items() if np.isfinite(vector).all()}


def _is_busy(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
