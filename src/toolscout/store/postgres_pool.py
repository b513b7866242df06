"""Connections to a PostgreSQL server, of which none waits longer than its deadline."""

from __future__ import annotations

import time
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import BoundedSemaphore, Lock, Thread

from ..errors import StoreError, require
from .circuit_breaker import CircuitBreaker
from .postgres_connection import SqlConnection, is_idle, open_connection, wait_readable
from .postgres_errors import translate_driver_errors
from .postgres_url import EXTRA, check_url, describe_url

TIMEOUT_SECONDS = 2.5
"""How long one use of the store may take, including the time to connect."""

MAX_CONNECTIONS = 8
"""How many connections one process has at most; further uses wait for one."""

# A connection that was idle for longer is checked by a round trip before it is used.
_CHECK_AFTER_SECONDS = 1.0


class PostgresPool:
    """Connections in autocommit mode that several threads share.

    Each use has a deadline. A server that is frozen (it accepts data, and never answers) is noticed
    by it; no timeout of the server itself can do that. After one use has reached its deadline, all
    others fail at once until the server answers again. Broken connections are replaced.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        check_url(url)
        self.name = describe_url(url)
        self.url = url
        self._timeout_seconds = timeout_seconds
        self._slots = BoundedSemaphore(max_connections)
        self._lock = Lock()
        self._idle: list[tuple[SqlConnection, float]] = []
        self._breaker = CircuitBreaker(self._probe)
        self._is_closed = False

    @contextmanager
    def use(self, *, timeout_seconds: float | None = None) -> Generator[SqlConnection]:
        """Lend a working connection; errors of the driver become StoreError.

        A use with more time than usual still begins with an answer within the usual time.
        """
        seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        deadline = time.monotonic() + seconds
        with self._take_slot(seconds):
            with self.guard():
                sql = self._check_out(
                    min(deadline, time.monotonic() + self._timeout_seconds),
                    is_long=seconds > self._timeout_seconds,
                )
            sql.deadline = deadline
            try:
                with self.guard(timeout_seconds=seconds):
                    yield sql
            finally:
                self._check_in(sql)

    @contextmanager
    def guard(self, *, timeout_seconds: float | None = None) -> Generator[None]:
        """Translate errors of the driver in a block, and fail at once while nothing answers.

        For connections of their own: they, too, notice for all others that nothing answers.
        """
        seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        with translate_driver_errors(self.url, timeout_seconds=seconds):
            self._breaker.check()
            try:
                yield
            except TimeoutError:
                self._breaker.trip()
                raise

    def connect(self) -> SqlConnection:
        """A connection of its own, which the caller closes: for LISTEN, or for long work."""
        with self.guard():
            return self._connect(time.monotonic() + self._timeout_seconds)

    def close(self) -> None:
        """Close all connections; a closed pool raises StoreError."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        self._breaker.stop()
        for sql, _ in idle:
            sql.close()

    @contextmanager
    def _take_slot(self, seconds: float) -> Generator[None]:
        if not self._slots.acquire(timeout=seconds):
            raise StoreError(
                f"The store {self.name} is busy: no connection became free in {seconds:g} s.",
                hint="Try again.",
            )
        try:
            yield
        finally:
            self._slots.release()

    def _check_out(self, deadline: float, *, is_long: bool) -> SqlConnection:
        while (entry := self._pop_idle()) is not None:
            sql, used_at = entry
            sql.deadline = deadline
            if _is_alive(sql, float("-inf") if is_long else used_at):
                return sql
            sql.close()
        return self._connect(deadline)

    def _probe(self) -> None:
        """Connect, which needs an answer of the server, and keep the connection for the others."""
        self._check_in(self._connect(time.monotonic() + self._timeout_seconds))

    def _pop_idle(self) -> tuple[SqlConnection, float] | None:
        with self._lock:
            if self._is_closed:
                raise StoreError("The store is closed.", hint="Open a new one.")
            # The last used first: it is the most likely to work, and the others may expire.
            return self._idle.pop() if self._idle else None

    def _check_in(self, sql: SqlConnection) -> None:
        sql.deadline = None
        with self._lock:
            if not self._is_closed and is_idle(sql):
                self._idle.append((sql, time.monotonic()))
                return
        sql.close()

    def _connect(self, deadline: float) -> SqlConnection:
        # In a thread of its own: looking up a name and trying several hosts have no deadline.
        result: Future[SqlConnection] = Future()
        Thread(target=self._open, args=(result,), name="toolscout-connect", daemon=True).start()
        try:
            return result.result(timeout=max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            result.add_done_callback(_close_late)
            raise TimeoutError from None

    def _open(self, result: Future[SqlConnection]) -> None:
        timeout_error = require("psycopg", extra=EXTRA).errors.ConnectionTimeout
        try:
            result.set_result(open_connection(self.url))
        except timeout_error:
            result.set_exception(TimeoutError())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for it
            result.set_exception(error)


def _is_alive(sql: SqlConnection, used_at: float) -> bool:
    """Whether a connection can be used; one that the server closed has something to read."""
    is_fresh = time.monotonic() - used_at < _CHECK_AFTER_SECONDS
    if is_fresh and not sql.closed and not wait_readable(sql.fileno(), timeout_seconds=0):
        return True
    try:
        sql.execute("")
    except require("psycopg", extra=EXTRA).Error:
        return False
    return True


def _close_late(result: Future[SqlConnection]) -> None:
    if result.exception() is None:
        with suppress(Exception):
            result.result().close()


_shared: dict[str, tuple[PostgresPool, int]] = {}
_shared_lock = Lock()


def share_pool(url: str) -> PostgresPool:
    """The pool that all stores of this process with the same URL use; `release_pool` ends it."""
    with _shared_lock:
        pool, users = _shared.get(url) or (PostgresPool(url), 0)
        _shared[url] = (pool, users + 1)
        return pool


def release_pool(pool: PostgresPool) -> None:
    """Close a shared pool when its last user is done."""
    with _shared_lock:
        users = _shared[pool.url][1] - 1
        _shared[pool.url] = (pool, users)
        if users:
            return
        del _shared[pool.url]
    pool.close()
