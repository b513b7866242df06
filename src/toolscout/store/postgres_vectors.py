"""Vectors in PostgreSQL: bytes by key, so that one gateway computes what all of them use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .postgres import PostgresDatabase

# One statement has one deadline, so it must be short even for long vectors.
_KEYS_PER_QUERY = 500

_SELECT = "SELECT key, vector FROM toolscout_vectors WHERE key = ANY(%s)"
_ABSENT = """
    SELECT wanted.key FROM unnest(%s::bytea[]) AS wanted (key)
    WHERE NOT EXISTS (SELECT FROM toolscout_vectors AS known WHERE known.key = wanted.key)"""
# A vector that is there already is the same one, unless it is damaged.
_INSERT = """
    INSERT INTO toolscout_vectors AS known (key, vector)
    SELECT * FROM unnest(%s::bytea[], %s::bytea[])
    ON CONFLICT (key) DO UPDATE SET vector = excluded.vector
    WHERE known.vector <> excluded.vector"""


class PostgresVectors:
    """Vectors of all gateways with this database; failures raise StoreError."""

    def __init__(self, url: str) -> None:
        self._database = PostgresDatabase(url)

    def get(self, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """The keys that are known, with their vectors."""
        return [(row[0], row[1]) for batch in _split(keys) for row in self._read(_SELECT, batch)]

    def absent(self, keys: Sequence[bytes]) -> set[bytes]:
        """Those of the keys that are not known."""
        return {row[0] for batch in _split(keys) for row in self._read(_ABSENT, batch)}

    def put(self, vectors: Mapping[bytes, bytes]) -> None:
        """Store vectors."""
        # In one order everywhere: two gateways that write the same do not wait for each other.
        for batch in _split(sorted(vectors)):
            with self._database.use() as sql:
                sql.execute(_INSERT, (batch, [vectors[key] for key in batch]))

    def close(self) -> None:
        """Release the connections."""
        self._database.close()

    def _read(self, query: str, keys: Sequence[bytes]) -> list[tuple[bytes, ...]]:
        with self._database.use() as sql:
            # Binary: in text, bytes are twice as long and have to be decoded.
            return sql.execute(query, (keys,), binary=True).fetchall()


def _split(keys: Sequence[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(keys), _KEYS_PER_QUERY):
        yield [*keys[start : start + _KEYS_PER_QUERY]]
