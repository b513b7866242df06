"""A change feed for gateways with one PostgreSQL database, by LISTEN and NOTIFY."""

from __future__ import annotations

import socket
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import count

from .change_feed import KEPT_SECONDS, Change
from .polled_feed import MAX_READ, PolledFeed
from .postgres import PostgresDatabase
from .postgres_connection import SqlConnection, wait_readable
from .postgres_notify import APPEND_CHANGE, CHANNEL, PRUNE_CHANGES
from .postgres_pool import TIMEOUT_SECONDS

POLL_SECONDS = 1.0
"""How often the table is read without a notification, as one may be lost."""

_WRITES_PER_PRUNING = 100
_READ = """
    SELECT sequence, topic, payload FROM toolscout_changes WHERE sequence > %s
    ORDER BY sequence LIMIT %s"""
_NEWEST = "SELECT coalesce(max(sequence), 0) FROM toolscout_changes"
# `is_called` is false before the first change.
_HIGHEST = """
    SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM toolscout_changes_sequence_seq"""


class PostgresChanges:
    """The table of changes, with a connection that listens for notifications."""

    def __init__(self, url: str) -> None:
        self._database = PostgresDatabase(url)
        self._listener: SqlConnection | None = None
        self._writes = count(1)
        self._wake_reader, self._wake_writer = socket.socketpair()

    def append(self, topic: str, payload: str) -> None:
        """Add a change and notify all that listen."""
        with self._database.use() as sql:
            sql.execute(APPEND_CHANGE, (topic, payload))
            if next(self._writes) % _WRITES_PER_PRUNING == 0:
                sql.execute(PRUNE_CHANGES, (KEPT_SECONDS,))

    def newest(self) -> int:
        """The sequence of the last change in the table, 0 if it is empty."""
        with self._listen() as sql:
            (newest,) = sql.execute(_NEWEST).fetchone() or (0,)
        return int(newest)

    def highest(self) -> int:
        """The highest sequence that any change has got."""
        with self._listen() as sql:
            (highest,) = sql.execute(_HIGHEST).fetchone() or (0,)
        return int(highest)

    def read(self, after: int) -> Sequence[tuple[int, Change]]:
        """Up to `MAX_READ` changes after a sequence, oldest first."""
        # On the connection that listens: reading shows at once if it is dead.
        with self._listen() as sql:
            rows = sql.execute(_READ, (after, MAX_READ)).fetchall()
        return [(sequence, Change(topic, payload)) for sequence, topic, payload in rows]

    def wait(self) -> None:
        """Wait for a notification, at most until the next poll."""
        with self._listen() as sql:
            sql.deadline = None
            # One may have arrived together with the rows that were read last. Their content does
            # not matter: the table is read next.
            if _take_notifications(sql):
                return
            if wait_readable(
                sql.fileno(), self._wake_reader.fileno(), timeout_seconds=POLL_SECONDS
            ):
                _take_notifications(sql)

    def wake(self) -> None:
        """End a wait at once."""
        self._wake_writer.send(b".")

    def reconnect(self) -> None:
        """Close the connection that listens."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(Exception):
                listener.close()

    def close(self) -> None:
        """Release all connections."""
        self.reconnect()
        self._database.close()
        self._wake_reader.close()
        self._wake_writer.close()

    @contextmanager
    def _listen(self) -> Generator[SqlConnection]:
        if self._listener is None:
            with self._database.use():  # creates the tables if need be
                pass
            listener = self._database.pool.connect()
            with self._database.pool.guard():
                listener.deadline = time.monotonic() + TIMEOUT_SECONDS
                listener.execute(f"LISTEN {CHANNEL}")
            self._listener = listener
        with self._database.pool.guard():
            self._listener.deadline = time.monotonic() + TIMEOUT_SECONDS
            yield self._listener


def _take_notifications(sql: SqlConnection) -> int:
    return sum(1 for _ in sql.notifies(timeout=0))


def open_postgres_feed(url: str) -> PolledFeed:
    """The feed of all processes that use this database."""
    return PolledFeed(PostgresChanges(url))
