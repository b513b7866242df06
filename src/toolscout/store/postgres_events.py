"""Stream events in PostgreSQL, so that a client can resume a stream at another gateway."""

from __future__ import annotations

from collections.abc import Sequence

from .postgres import PostgresDatabase
from .stream_events import EventLimits, StoredEvent, find_long_streams

# Times are those of the server: the clocks of gateways differ.
_NOW = "extract(epoch FROM clock_timestamp())"
_INSERT = f"""
    INSERT INTO toolscout_events (stream, number, time, bytes, data)
    SELECT stream, number, {_NOW}, octet_length(data), data
    FROM unnest(%s::text[], %s::bigint[], %s::bytea[]) AS events (stream, number, data)
    ON CONFLICT (stream, number) DO NOTHING"""  # noqa: S608 - a constant
# The first event describes the stream, and stays.
_SHORTEN = """
    DELETE FROM toolscout_events AS events
    USING unnest(%s::text[], %s::bigint[]) AS long (stream, kept)
    WHERE events.stream = long.stream AND number > 0 AND number < kept"""
_SELECT = f"""
    SELECT number, data FROM toolscout_events WHERE stream = %s AND time > {_NOW} - %s
    ORDER BY number"""  # noqa: S608 - a constant
_EXPIRE = f"""
    DELETE FROM toolscout_events WHERE sequence IN (
        SELECT sequence FROM toolscout_events WHERE time <= {_NOW} - %s FOR UPDATE SKIP LOCKED
    )"""  # noqa: S608 - a constant
# Read from an index. The order of all events is needed only if they are too many.
_SIZE = "SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM toolscout_events"
# Events that another gateway deletes at the same time are skipped.
_DELETE_OLDEST = """
    DELETE FROM toolscout_events WHERE sequence IN (
        SELECT sequence FROM toolscout_events WHERE sequence IN (
            SELECT sequence FROM (
                SELECT sequence, row_number() OVER newest AS place, sum(bytes) OVER newest AS taken
                FROM toolscout_events WINDOW newest AS (ORDER BY time DESC, sequence DESC)
            ) AS events WHERE place > %s OR taken > %s
        ) FOR UPDATE SKIP LOCKED
    )"""


class PostgresEvents:
    """Events of all gateways with this database."""

    def __init__(self, url: str, *, limits: EventLimits | None = None) -> None:
        self._database = PostgresDatabase(url)
        self._limits = limits or EventLimits()

    def append(self, events: Sequence[StoredEvent]) -> None:
        """Add events; one that is there already is not replaced."""
        columns = [e.stream for e in events], [e.number for e in events], [e.data for e in events]
        with self._database.use() as sql:
            sql.execute(_INSERT, columns)
            if long := find_long_streams(events):
                sql.execute(_SHORTEN, ([*long], [*long.values()]))

    def read(self, stream: str) -> tuple[StoredEvent, ...]:
        """The events of a stream that are kept, oldest first."""
        with self._database.use() as sql:
            values = (stream, self._limits.max_age_seconds)
            rows = sql.execute(_SELECT, values, binary=True).fetchall()
        return tuple(StoredEvent(stream, number, data) for number, data in rows)

    def prune(self) -> int:
        """Delete what is over the limits, the oldest first; how many events that were."""
        limits = self._limits
        with self._database.use() as sql:
            deleted = sql.execute(_EXPIRE, (limits.max_age_seconds,)).rowcount
            number, size = sql.execute(_SIZE).fetchone() or (0, 0)
            if number > limits.max_events or size > limits.max_bytes:
                values = (limits.max_events, limits.max_bytes)
                deleted += sql.execute(_DELETE_OLDEST, values).rowcount
        return deleted

    def close(self) -> None:
        """Release the connections."""
        self._database.close()
