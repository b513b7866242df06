"""Locks by name between all processes that use one PostgreSQL database."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

from ..errors import StoreError
from .postgres import PostgresDatabase

# "scop" in ASCII: keeps these locks apart from other programs' advisory locks.
_CLASS = 0x73636F70
# Beyond the wait for the lock: what its holder does, and the end of the transaction.
_WORK_SECONDS = 10.0


class PostgresLocks:
    """Advisory locks; one whose holder dies is free again at once."""

    def __init__(self, url: str, *, timeout_seconds: float = 10.0) -> None:
        self._database = PostgresDatabase(url)
        self._timeout_seconds = timeout_seconds
        # A holder has one connection for the lock and takes others for its work. With one holder at
        # a time, holders cannot take all connections of the process and wait for each other.
        self._turn = Lock()

    @contextmanager
    def hold(self, name: str) -> Generator[None]:
        """Keep other threads and processes out; StoreError if another holds the lock too long."""
        seconds = self._timeout_seconds
        if not self._turn.acquire(timeout=seconds):
            raise _busy_error(name, seconds)
        try:
            with (
                self._database.use(timeout_seconds=seconds + _WORK_SECONDS) as sql,
                sql.transaction(),
            ):
                sql.execute(f"SET LOCAL lock_timeout = {max(1, round(seconds * 1_000))}")
                sql.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_CLASS, name))
                yield
        finally:
            self._turn.release()

    def close(self) -> None:
        """Release the connections."""
        self._database.close()


def _busy_error(name: str, seconds: float) -> StoreError:
    return StoreError(
        f"Another process has kept {name!r} locked for {seconds:g} s.", hint="Try again."
    )
