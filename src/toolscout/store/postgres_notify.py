"""The statement that tells other processes of a change, for the feed and for writes with news."""

from __future__ import annotations

CHANNEL = "toolscout_changes"
# "scoc" in ASCII: publishers take turns, so that changes become visible in the order of their
# sequence. The server makes commits with NOTIFY take turns anyway.
_LOCK = 0x73636F63
# The notification has only the sequence: its payload is limited to 8,000 bytes.
APPEND_CHANGE = f"""
    WITH lock AS MATERIALIZED (SELECT pg_advisory_xact_lock({_LOCK})), added AS (
        INSERT INTO toolscout_changes (time, topic, payload)
        SELECT extract(epoch FROM clock_timestamp()), %s, %s FROM lock RETURNING sequence
    )
    SELECT pg_notify('{CHANNEL}', sequence::text) FROM added"""  # noqa: S608 - constants
PRUNE_CHANGES = (
    "DELETE FROM toolscout_changes WHERE time < extract(epoch FROM clock_timestamp()) - %s"
)
