"""Vectors from the cache on disk, and from the embedder where the cache has none."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter, deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from threading import Lock
from typing import Protocol

import numpy as np

from ..catalog.tool import Tool
from ..errors import EmbedderError
from .arrays import Floats
from .embedder import Embedder, encode_texts, normalize_rows
from .tool_texts import TextRecipe, embedding_input, embedding_texts

# SQLite allows at most 999 parameters per statement in versions before 3.32.
_KEYS_PER_QUERY = 500
# After so many failures because of locks the cache is no longer used: computing vectors again is
# better than waiting for another process at every search.
_MAX_BUSY_FAILURES = 3
_BATCH = 32
_CACHED_BATCH = 2_048
_WORD_BATCH = 128  # words are far shorter than the texts of a tool
# Halving a failed batch down to one bad tool takes six attempts that may all fail. If the tool
# after it fails as well, the embedder itself is the problem.
_MAX_FAILURES_IN_A_ROW = _BATCH.bit_length() + 1


def vector_key(model: str, texts: Iterable[tuple[str, float]]) -> bytes:
    """The key of a vector: a hash of the model and of all texts with their shares."""
    parts = "\0".join(f"{share:g}\1{text}" for text, share in texts)
    return hashlib.blake2b(f"{model}\0{parts}".encode(errors="replace"), digest_size=16).digest()


class VectorStore(Protocol):
    """Where vectors are kept between starts; failures are not raised."""

    def get(self, keys: Sequence[bytes], /) -> dict[bytes, Floats]:
        """The known vectors by key."""
        ...

    def put(self, vectors: Iterable[tuple[bytes, Floats]], /) -> None:
        """Store vectors."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


class VectorCache:
    """A SQLite file of vectors that any number of processes can share, or delete at any time.

    A broken file is not used, and neither is one that stays locked: `problem` then says why, and
    the search continues without the cache.
    """

    def __init__(self, path: str | Path, *, wait_seconds: float = 2.0) -> None:
        self.path = Path(path)
        self.problem = ""
        self._wait_seconds = wait_seconds
        self._failures_left = _MAX_BUSY_FAILURES
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Floats]:
        """The known vectors by key."""
        found: dict[bytes, Floats] = {}
        ordered = sorted(keys)  # in the order of the file, so that each page is read once
        with self._lock, self._use_connection() as connection:
            if connection is None:
                return {}
            for start in range(0, len(ordered), _KEYS_PER_QUERY):
                batch = ordered[start : start + _KEYS_PER_QUERY]
                marks = ",".join("?" * len(batch))  # only question marks, never values
                select = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608
                found |= decode_vectors(connection.execute(select, batch).fetchall())
        return found

    def put(self, vectors: Iterable[tuple[bytes, Floats]]) -> None:
        """Store vectors; a failure is recorded in `problem` and not raised."""
        rows = [(k, encode_vector(v)) for k, v in vectors]
        with self._lock, self._use_connection() as connection:
            if connection is not None:
                with connection:
                    connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._disconnect()

    @contextmanager
    def _use_connection(self) -> Generator[sqlite3.Connection | None]:
        """The open connection, or None if the cache is unusable; records failures in the block."""
        connection = None
        try:
            if self._failures_left > 0:
                connection = self._open()
        except (sqlite3.Error, OSError) as error:
            self._record_failure(error)
        try:
            yield connection
        except (sqlite3.Error, OSError) as error:
            self._record_failure(error)

    def _record_failure(self, error: Exception) -> None:
        self.problem = f"The vector cache {self.path.name} cannot be used: {error}"
        # A lock may be released; a file that is broken or not writable will stay so.
        self._failures_left -= 1 if _is_busy(error) else _MAX_BUSY_FAILURES
        self._disconnect()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = connection = sqlite3.connect(
                self.path, timeout=self._wait_seconds, check_same_thread=False
            )
            # With a write-ahead log, readers in other processes do not block a writer. NORMAL may
            # lose the last vectors in a power failure, but never breaks the file.
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)"
                " WITHOUT ROWID"
            )
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def encode_vector(vector: Floats) -> bytes:
    """A vector in half precision."""
    return vector.astype(np.float16).tobytes()


def decode_vectors(rows: Sequence[tuple[bytes, object]]) -> dict[bytes, Floats]:
    """The vectors of some rows; rows that are not vectors are left out."""
    valid = [(k, v) for k, v in rows if isinstance(v, bytes) and v and not len(v) % 2]
    # Converted all at once and then sliced: faster than one conversion per vector.
    numbers = np.frombuffer(b"".join([v for _, v in valid]), np.float16).astype(np.float32)
    ends = list(accumulate([len(v) // 2 for _, v in valid]))
    found = {k: numbers[b - len(v) // 2 : b] for (k, v), b in zip(valid, ends, strict=True)}
    if np.isfinite(numbers).all():
        return found
    return {k: vector for k, vector in found.items() if np.isfinite(vector).all()}


def _is_busy(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    # The low byte is the primary code; the rest details it (SQLITE_BUSY_SNAPSHOT and others).
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@dataclass(frozen=True, slots=True)
class VectorBatch:
    """Some tools and their vectors; new vectors come with their cache `keys`."""

    tools: Sequence[Tool]
    vectors: Floats
    keys: Sequence[bytes] = ()


def embed_tools(
    tools: Sequence[Tool],
    embedder: Embedder,
    cache: VectorStore | None,
    *,
    text_recipe: TextRecipe = embedding_texts,
) -> Iterator[VectorBatch]:
    """Vectors in batches as they become available, cached ones first."""
    keyed = ((tool, _cache_key(embedder, tool, text_recipe)) for tool in tools)
    rest: list[tuple[Tool, bytes]] = []
    length = 0
    # In batches also from the cache: all vectors at once would be twice the size of the index.
    while batch := list(islice(keyed, _CACHED_BATCH)):
        known = cache.get([key for _, key in batch]) if cache is not None else {}
        length = length or _usual_length(known.values())
        ready = [(t, known[k]) for t, k in batch if k in known and len(known[k]) == length]
        if len(ready) < len(batch):
            rest += [(t, k) for t, k in batch if k not in known or len(known[k]) != length]
        if ready:
            yield VectorBatch([t for t, _ in ready], _stack_rows([v for _, v in ready]))
    yield from _encode_in_batches(rest, embedder, text_recipe)


def embed_words(
    words: Sequence[str], embedder: Embedder, cache: VectorStore | None
) -> Iterator[tuple[Sequence[str], Floats]]:
    """Words and their vectors in batches, cached ones first; new ones are added to the cache."""
    keys = {word: vector_key(embedder.id, ((word, 1.0),)) for word in words}
    known = cache.get(tuple(keys.values())) if cache is not None else {}
    length = _usual_length(known.values())
    known = {key: vector for key, vector in known.items() if len(vector) == length}
    if ready := [word for word in keys if keys[word] in known]:
        yield ready, _stack_rows([known[keys[word]] for word in ready])
    rest = [word for word in keys if keys[word] not in known]
    for start in range(0, len(rest), _WORD_BATCH):
        batch = rest[start : start + _WORD_BATCH]
        vectors = _round_to_half(normalize_rows(encode_texts(embedder, batch)))
        if cache is not None:
            cache.put((keys[word], row) for word, row in zip(batch, vectors, strict=True))
        yield batch, vectors


def _cache_key(embedder: Embedder, tool: Tool, text_recipe: TextRecipe) -> bytes:
    """The cache key of a tool's vector."""
    # For the default recipe its input is hashed instead of its texts. That identifies the vector as
    # well, and building the texts of a large catalog would slow down every start.
    if text_recipe is embedding_texts:
        return vector_key(embedder.id, ((embedding_input(tool), 1.0),))
    return vector_key(embedder.id, text_recipe(tool))


def _encode_in_batches(
    rest: Sequence[tuple[Tool, bytes]], embedder: Embedder, text_recipe: TextRecipe
) -> Iterator[VectorBatch]:
    """New vectors; a batch that fails is halved, so that one bad tool does not cost the others.

    The last error is raised at the end, or at once if the embedder says that it is down or if
    single tools keep failing.
    """
    work = deque(rest[start : start + _BATCH] for start in range(0, len(rest), _BATCH))
    failure: EmbedderError | None = None
    failures = 0
    while work and failures < _MAX_FAILURES_IN_A_ROW and not (failure and failure.is_transient):
        batch = work.popleft()
        tools, keys = zip(*batch, strict=True)
        try:
            vectors = encode_tools(tools, embedder, text_recipe=text_recipe)
        except EmbedderError as error:
            failure, failures = error, failures + 1
            middle = len(batch) // 2
            # extendleft reverses: the first half is tried first.
            work.extendleft([batch[middle:], batch[:middle]] if middle else [])
        else:
            failures = 0
            yield VectorBatch(tools, vectors, keys)
    if failure is not None:
        raise failure


def encode_tools(
    tools: Sequence[Tool], embedder: Embedder, *, text_recipe: TextRecipe = embedding_texts
) -> Floats:
    """One unit vector per tool: the weighted mean of the vectors of its texts."""
    recipes = [text_recipe(t) for t in tools]
    flat = list(dict.fromkeys(text for recipe in recipes for text, _ in recipe))
    rows = dict(zip(flat, encode_texts(embedder, flat), strict=True))
    sums = np.stack([sum(np.float32(w) * rows[t] for t, w in recipe) for recipe in recipes])
    return _round_to_half(normalize_rows(sums))


def _round_to_half(vectors: Floats) -> Floats:
    """Round to half precision, as the cache stores it: cold and warm starts use equal vectors."""
    return vectors.astype(np.float16).astype(np.float32)


def _stack_rows(vectors: Sequence[Floats]) -> Floats:
    """Vectors of one length as a matrix; for thousands of them faster than np.stack."""
    return np.concatenate(vectors).reshape(len(vectors), -1)


def _usual_length(vectors: Collection[Floats]) -> int:
    """The most common length, 0 if there is none; a cache with several has wrong entries."""
    lengths = Counter(map(len, vectors))
    return max(lengths, key=lambda length: (lengths[length], length), default=0)
