"""A lock that processes share, by the name of a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from ..errors import StoreError


@contextmanager
def hold_file_lock(path: Path, *, timeout_seconds: float) -> Generator[None]:
    """Keep other threads and processes out until the block ends."""
    # The lock is SQLite's, on an empty database: it works on every platform, and the system
    # releases it when a process dies.
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            database = sqlite3.connect(path, timeout=timeout_seconds, isolation_level=None)
            stack.enter_context(closing(database)).execute("BEGIN EXCLUSIVE")
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"{path} cannot be locked: {error}.",
                hint="If another process holds it, try again when that process is done.",
            ) from error
        yield
