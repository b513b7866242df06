"""A store in PostgreSQL, which many gateways share."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

from ..errors import StoreError
from .change_feed import KEPT_SECONDS
from .contract import Clock, Record, StoreLimits, check_entry
from .postgres_connection import SqlConnection
from .postgres_migrations import migrate_postgres
from .postgres_notify import APPEND_CHANGE, PRUNE_CHANGES
from .postgres_pool import PostgresPool, release_pool, share_pool
from .postgres_url import describe_url

# A first start waits for the migration of another process, which may rewrite tables.
MIGRATION_TIMEOUT_SECONDS = 60.0
_EXPIRED_AT_ONCE = 1_000

_SELECT = """
    SELECT version, text, created, updated FROM toolscout_records
    WHERE space = %(space)s AND key = %(key)s AND updated > %(cutoff)s"""
# `sequence` gets a new number with every write; it breaks ties of `updated`.
_UPDATE = """
    UPDATE toolscout_records
    SET version = version + 1, text = %(text)s, updated = %(now)s, sequence = DEFAULT
    WHERE space = %(space)s AND key = %(key)s AND version = %(expected)s AND updated > %(cutoff)s
    RETURNING created"""
# Only an expired record is written over.
_INSERT = """
    INSERT INTO toolscout_records (space, key, version, text, created, updated)
    VALUES (%(space)s, %(key)s, 1, %(text)s, %(now)s, %(now)s)
    ON CONFLICT (space, key) DO UPDATE
    SET version = 1, text = excluded.text, created = excluded.created, updated = excluded.updated,
        sequence = DEFAULT
    WHERE toolscout_records.updated <= %(cutoff)s
    RETURNING created"""
# In the same statement, so that no round trip and no further transaction is needed. It sees the
# records as they were before the insertion. Records that others are writing are skipped instead of
# waited for: they are not the oldest for long. Writers that insert at once may exceed the cap by
# their number until the next insertion.
_INSERT_AND_EVICT = f"""
    WITH inserted AS ({_INSERT}), evicted AS (
        DELETE FROM toolscout_records WHERE sequence IN (
            SELECT sequence FROM toolscout_records WHERE space = %(space)s AND key <> %(key)s
            ORDER BY updated, sequence
            LIMIT greatest(0, (SELECT count(*) FROM toolscout_records
                WHERE space = %(space)s AND key <> %(key)s) - %(others)s)
            FOR UPDATE SKIP LOCKED
        ) AND EXISTS (SELECT FROM inserted)
    )
    SELECT created FROM inserted"""  # noqa: S608 - a constant
_DELETE = """
    DELETE FROM toolscout_records WHERE space = %(space)s AND key = %(key)s
    RETURNING updated > %(cutoff)s"""
_EXPIRE = """
    DELETE FROM toolscout_records WHERE sequence IN (
        SELECT sequence FROM toolscout_records WHERE space = %(space)s AND updated <= %(cutoff)s
        LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    )"""
_LIST = """
    SELECT key, version, text, created, updated FROM toolscout_records
    WHERE space = %(space)s AND updated > %(cutoff)s
    ORDER BY updated DESC, sequence DESC LIMIT %(limit)s"""

_SEQUENCES = """
    SELECT key, sequence FROM toolscout_records
    WHERE space = %(space)s AND key = ANY(%(keys)s) AND updated > %(cutoff)s"""


class PostgresDatabase:
    """A database with the tables of this version; several stores of one process share it.

    Nothing is connected before the first use, and a server that was away is found again by itself.
    """

    def __init__(self, url: str) -> None:
        self.name = describe_url(url)
        self._pool = share_pool(url)
        self._lock = Lock()
        self._is_migrated = False
        self._is_closed = False

    @contextmanager
    def use(self, *, timeout_seconds: float | None = None) -> Generator[SqlConnection]:
        """Lend a connection in autocommit mode."""
        if self._is_closed:
            raise StoreError(f"The store {self.name} is closed.", hint="Open a new one.")
        if not self._is_migrated:
            self._migrate()
        with self._pool.use(timeout_seconds=timeout_seconds) as sql:
            yield sql

    @property
    def pool(self) -> PostgresPool:
        """The connections, for those that need one of their own."""
        return self._pool

    def close(self) -> None:
        """Release the connections; a closed database raises StoreError."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        release_pool(self._pool)

    def _migrate(self) -> None:
        with self._lock:
            if self._is_migrated:
                return
            with self._pool.use(timeout_seconds=MIGRATION_TIMEOUT_SECONDS) as sql:
                try:
                    migrate_postgres(sql)
                except StoreError as error:
                    raise StoreError(f"{self.name}: {error.message}", hint=error.hint) from error
            self._is_migrated = True


class PostgresStore:
    """Keeps texts in a PostgreSQL database.

    An acknowledged write is on the disk of the server. When a write fails because the server went
    away, it may or may not have been done: read again, as after a write that came second.
    `space` separates unrelated keys in the same database; each space has its own limits. With a
    `topic`, each write is also a change of the feed, with the key as payload: both or neither.
    """

    def __init__(
        self,
        url: str,
        *,
        space: str = "sessions",
        limits: StoreLimits | None = None,
        clock: Clock = time.time,
        topic: str = "",
    ) -> None:
        self._database = PostgresDatabase(url)
        self._space = space
        self._topic = topic
        self._limits = limits or StoreLimits()
        self._clock = clock

    def get(self, key: str) -> Record | None:
        """The record of a key, or None."""
        check_entry(key)
        with self._database.use() as sql:
            row = sql.execute(_SELECT, self._values(key)).fetchone()
        return Record(key, row[0], decode_text(row[1]), row[2], row[3]) if row else None

    def put(self, key: str, text: str, *, expected: int) -> Record | None:
        """Write if the version is still the expected one (0: no record yet)."""
        check_entry(key, text)
        now = self._clock()
        values = self._values(key, text=encode_text(text), now=now, expected=expected)
        query = _UPDATE
        if not expected:
            cap = self._limits.cap
            query = _INSERT if cap is None else _INSERT_AND_EVICT
            values["others"] = (cap or 0) - 1
        row = self._write(query, values)
        return Record(key, expected + 1, text, row[0], now) if row else None

    def delete(self, key: str) -> bool:
        """Delete a key; whether it existed."""
        check_entry(key)
        row = self._write(_DELETE, self._values(key))
        return bool(row and row[0])

    def expire(self) -> int:
        """Delete expired records; how many there were."""
        if self._limits.ttl_seconds is None:
            return 0
        values = self._values(limit=_EXPIRED_AT_ONCE)
        total = 0
        # In batches, each with a deadline of its own.
        while True:
            with self._database.use() as sql:
                deleted = sql.execute(_EXPIRE, values).rowcount
            total += deleted
            if deleted < _EXPIRED_AT_ONCE:
                return total

    def list(self, *, limit: int = 100) -> tuple[Record, ...]:
        """The records, last written first."""
        with self._database.use() as sql:
            rows = sql.execute(_LIST, self._values(limit=limit)).fetchall()
        return tuple(Record(row[0], row[1], decode_text(row[2]), row[3], row[4]) for row in rows)

    def sequences(self, *keys: str, timeout_seconds: float | None = None) -> Mapping[str, int]:
        """A number for each of these keys that exists, which every write of it changes."""
        # Without the texts, which may be long.
        with self._database.use(timeout_seconds=timeout_seconds) as sql:
            rows = sql.execute(_SEQUENCES, self._values(keys=[*keys])).fetchall()
        return dict(rows)

    def close(self) -> None:
        """Release the connections; a closed store raises StoreError."""
        self._database.close()

    def _write(self, query: str, values: dict[str, object]) -> tuple[Any, ...] | None:
        with self._database.use() as sql:
            if not self._topic:
                return sql.execute(query, values).fetchone()
            with sql.transaction():
                row = sql.execute(query, values).fetchone()
                if row:
                    sql.execute(APPEND_CHANGE, (self._topic, values["key"]))
                    # Such writes are rare, and so the table is small.
                    sql.execute(PRUNE_CHANGES, (KEPT_SECONDS,))
                return row

    def _values(self, key: str = "", **more: object) -> dict[str, object]:
        ttl = self._limits.ttl_seconds
        cutoff = float("-inf") if ttl is None else self._clock() - ttl
        return {"space": self._space, "key": key, "cutoff": cutoff, **more}


def encode_text(text: str) -> str:
    """A text as PostgreSQL can hold it, which cannot hold NUL; most texts are unchanged."""
    # Character by character, so that prefixes stay prefixes and different texts stay different.
    return text.replace("\x1b", "\x1b1").replace("\0", "\x1b0")


def decode_text(text: str) -> str:
    """The text that `encode_text` encoded."""
    return text.replace("\x1b0", "\0").replace("\x1b1", "\x1b") if "\x1b" in text else text
