"""Token buckets in PostgreSQL, so that several gateways enforce one limit."""

from __future__ import annotations

from .contract import check_entry
from .postgres import PostgresDatabase
from .rate_limits import MAX_BUCKETS

# In one statement, so that two gateways cannot take the same token. Before an update, the columns
# of the row are those of the last use; `refilled` is what they are worth now.
_REFILLED = """least(%(capacity)s, buckets.tokens
    + greatest(0, %(now)s - buckets.time) * %(per_second)s)"""
_TAKE = f"""
    INSERT INTO toolscout_buckets AS buckets (key, tokens, time, is_granted)
    VALUES (%(key)s, %(capacity)s - 1, %(now)s, TRUE)
    ON CONFLICT (key) DO UPDATE SET
        tokens = {_REFILLED} - CASE WHEN {_REFILLED} >= 1 THEN 1 ELSE 0 END,
        time = greatest(%(now)s, buckets.time),
        is_granted = {_REFILLED} >= 1
    RETURNING is_granted, tokens"""  # noqa: S608 - constants
_DROP_OLDEST = """
    DELETE FROM toolscout_buckets WHERE key IN (
        SELECT key FROM toolscout_buckets ORDER BY time
        LIMIT greatest(0, (SELECT count(*) FROM toolscout_buckets) - %s) FOR UPDATE SKIP LOCKED
    )"""


class PostgresBuckets:
    """Buckets of all gateways with this database; `now` has to be a clock that they share."""

    def __init__(self, url: str, *, capacity: int = MAX_BUCKETS) -> None:
        self._database = PostgresDatabase(url)
        self._capacity = capacity
        self._uses = 0

    def take(self, key: str, *, per_second: float, capacity: float, now: float) -> float:
        """Take one token; the seconds to wait if there is none, or else 0."""
        check_entry(key)
        values = {"key": key, "per_second": per_second, "capacity": capacity, "now": now}
        with self._database.use() as sql:
            is_granted, tokens = sql.execute(_TAKE, values).fetchone() or (True, 0.0)
            self._uses += 1
            # Now and then is enough: the table may exceed the limit by a tenth.
            if self._uses % max(1, self._capacity // 10) == 0:
                sql.execute(_DROP_OLDEST, (self._capacity,))
        return 0.0 if is_granted else (1 - tokens) / per_second

    def close(self) -> None:
        """Release the connections."""
        self._database.close()
