"""Vectors that gateways share through their database, beside the file of each machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..config import Config
from ..store.optional_use import OptionalUse
from ..store.postgres_url import is_postgres_url
from ..store.postgres_vectors import PostgresVectors
from .arrays import Floats
from .cache import VectorCache, VectorStore, decode_vectors, encode_vector

FILE_NAME = "vectors.db"


def open_vectors(config: Config) -> VectorStore:
    """The vectors of this machine; with PostgreSQL, also those that other gateways computed."""
    local = VectorCache(config.cache_folder / FILE_NAME)
    if not is_postgres_url(config.store):
        return local
    return SharedVectorCache(local, PostgresVectors(config.store))


class SharedVectorCache:
    """Reads the file first, and the database for what it lacks; each gets what the other has.

    So a gateway that starts again does not read the database, and one that starts without its
    database has its vectors. A database that fails is not used for a while; nothing is raised.
    """

    def __init__(self, local: VectorCache, shared: PostgresVectors) -> None:
        self._local = local
        self._shared = shared
        self._use = OptionalUse("Vectors are those of this machine for now")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Floats]:
        """The known vectors by key."""
        found = self._local.get(keys)
        return found | self._use.run(lambda: self._exchange(keys, found), {})

    def put(self, vectors: Iterable[tuple[bytes, Floats]]) -> None:
        """Store vectors in both places."""
        rows = dict(vectors)
        self._local.put(rows.items())
        self._use.run(lambda: self._upload(rows), None)

    def close(self) -> None:
        """Close the file, and release the connections."""
        self._local.close()
        self._shared.close()

    def _exchange(self, keys: Sequence[bytes], found: dict[bytes, Floats]) -> dict[bytes, Floats]:
        """Get what the file lacks, and give what the database lacks."""
        new = decode_vectors(self._shared.get([key for key in keys if key not in found]))
        self._local.put(new.items())
        # Of the time before the database, or of one when it did not answer.
        absent = self._shared.absent([*found])
        self._upload({key: found[key] for key in absent})
        return new

    def _upload(self, vectors: dict[bytes, Floats]) -> None:
        self._shared.put({key: encode_vector(vector) for key, vector in vectors.items()})
