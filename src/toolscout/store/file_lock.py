"""A lock that processes share, by the name of a file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path

from ..errors import StoreError

_POLL_SECONDS = 0.02


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


@asynccontextmanager
async def hold_file_lock_async(path: Path, *, timeout_seconds: float) -> AsyncGenerator[None]:
    """The same for a block that waits for something else; other tasks run meanwhile."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_seconds
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(hold_file_lock(path, timeout_seconds=0))
                break
            except StoreError as error:
                # SQLite cannot wait without blocking the event loop, so it is asked again.
                if not _is_held(error) or loop.time() >= deadline:
                    raise
            await asyncio.sleep(_POLL_SECONDS)
        yield


def _is_held(error: StoreError) -> bool:
    cause = error.__cause__
    is_sqlite = isinstance(cause, sqlite3.OperationalError)
    return is_sqlite and cause.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
