"""One at a time, whichever thread or process it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from ...errors import StoreError


@contextmanager
def file_lock(path: Path, *, patience_seconds: float) -> Generator[None]:
    """Wait until nobody else is in here by the same path, and keep them out meanwhile.

    The lock is that of SQLite on an empty file: every system has it, and gives it back when a
    process ends in whatever way.
    """
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = sqlite3.connect(path, timeout=patience_seconds, isolation_level=None)
            stack.enter_context(closing(file)).execute("BEGIN EXCLUSIVE")
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"{path} cannot be locked: {error}.",
                hint="If another process holds it, try again when that is done.",
            ) from error
        yield
