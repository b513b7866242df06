"""Vectors on disk, by what was encoded and by which model; safe to delete at any time."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
_AT_ONCE = 500


def key(model: str, texts: Iterable[tuple[str, float]]) -> bytes:
    """What a vector is kept under: the model, and all of the text with its shares."""
    parts = "\0".join(f"{share:g}\1{text}" for text, share in texts)
    return hashlib.blake2b(f"{model}\0{parts}".encode(errors="replace"), digest_size=16).digest()


class VectorCache:
    """A file of vectors that any number of processes share; a broken one is simply not used."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self.problem = ""

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Floats]:
        """The vectors that are known, by key."""
        found: dict[bytes, Floats] = {}
        try:
            with self._lock:
                connection = self._open()
                for start in range(0, len(keys), _AT_ONCE):
                    some = keys[start : start + _AT_ONCE]
                    marks = ",".join("?" * len(some))  # marks, never values
                    wanted = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608
                    rows = connection.execute(wanted, some)
                    found |= {k: np.frombuffer(v, np.float16).astype(np.float32) for k, v in rows}
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)
        return found

    def put(self, vectors: Iterable[tuple[bytes, Floats]]) -> None:
        """Keep vectors for next time; failing to is no failure of the search."""
        try:
            with self._lock:
                connection = self._open()
                rows = [(k, v.astype(np.float16).tobytes()) for k, v in vectors]
                with connection:
                    connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=5, check_same_thread=False)
            self._connection = connection
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)"
                " WITHOUT ROWID"
            )
        return self._connection

    def _give_up(self, error: Exception) -> None:
        self.problem = f"The vector cache {self.path.name} cannot be used: {error}"
