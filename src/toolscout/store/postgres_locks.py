"""Locks by name between all processes that use one PostgreSQL database."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from threading import Lock

from ..errors import StoreError
from .postgres import PostgresDatabase
from .postgres_connection import SqlConnection
from .postgres_pool import TIMEOUT_SECONDS

# "scop" in ASCII: keeps these locks apart from other programs' advisory locks.
_CLASS = 0x73636F70
# Beyond the wait for the lock: what its holder does, and the end of the transaction.
_WORK_SECONDS = 10.0
_POLL_SECONDS = 0.05


class PostgresLocks:
    """Advisory locks; one whose holder dies is free again at once."""

    def __init__(self, url: str, *, timeout_seconds: float = 10.0) -> None:
        self._database = PostgresDatabase(url)
        self._timeout_seconds = timeout_seconds
        # A holder has one connection for the lock and takes others for its work. With one holder at
        # a time, holders cannot take all connections of the process and wait for each other.
        self._turn = Lock()
        self._local: defaultdict[str, Lock] = defaultdict(Lock)

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

    @asynccontextmanager
    async def hold_async(self, name: str, *, timeout_seconds: float) -> AsyncGenerator[None]:
        """The same for a block that waits for something else; other tasks run meanwhile."""
        # The lock is asked for again and again, so that no thread of the event loop's pool waits
        # for a holder that needs one. Of one process, one task at a time asks the server.
        deadline = time.monotonic() + timeout_seconds
        local = self._local[name]
        while not local.acquire(blocking=False):
            await _pause(name, deadline, timeout_seconds)
        try:
            sql = await self._connect()
            try:
                while not await asyncio.to_thread(self._try_lock, sql, name):
                    await _pause(name, deadline, timeout_seconds)
                yield
            finally:
                # The transaction ends with the connection, and the lock with the transaction.
                sql.close()
        finally:
            local.release()

    async def _connect(self) -> SqlConnection:
        """A connection of its own: a holder may wait for long, and the pool is small."""
        opening = asyncio.ensure_future(asyncio.to_thread(self._begin))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_late)
            raise

    def _begin(self) -> SqlConnection:
        pool = self._database.pool
        sql = pool.connect()
        try:
            with pool.guard():
                sql.deadline = time.monotonic() + TIMEOUT_SECONDS
                sql.execute("BEGIN")
        except BaseException:
            sql.close()
            raise
        return sql

    def _try_lock(self, sql: SqlConnection, name: str) -> bool:
        query = "SELECT pg_try_advisory_xact_lock(%s, hashtext(%s))"
        with self._database.pool.guard():
            sql.deadline = time.monotonic() + TIMEOUT_SECONDS
            (is_locked,) = sql.execute(query, (_CLASS, name)).fetchone() or (False,)
        return is_locked

    def close(self) -> None:
        """Release the connections."""
        self._database.close()


def _busy_error(name: str, seconds: float) -> StoreError:
    return StoreError(
        f"Another process has kept {name!r} locked for {seconds:g} s.", hint="Try again."
    )


async def _pause(name: str, deadline: float, seconds: float) -> None:
    if time.monotonic() >= deadline:
        raise _busy_error(name, seconds)
    await asyncio.sleep(_POLL_SECONDS)


def _close_late(opening: asyncio.Future[SqlConnection]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
