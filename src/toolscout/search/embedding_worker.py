"""Vectors for a catalog: from the cache where known, encoded in batches where not."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from threading import Event, Lock, Thread
from time import monotonic
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..catalog.tool import Tool
from ..errors import EmbedderError
from .embedders.cache import VectorCache, vector_key
from .embedders.embedder import Embedder, encode_texts, normalize_rows
from .fields import TextRecipe, embedding_input, embedding_texts

Floats = npt.NDArray[np.float32]
ProgressCallback = Callable[[int, int], None]
"""Told how many of how many tools and words have their vectors."""

RETRY_SECONDS = 30.0
"""How long after a failure the background lets an embedder be."""

_BATCH = 32
_WORD_BATCH = 128
_MAX_FAILURES_IN_A_ROW = _BATCH.bit_length() + 1  # all the halvings of a batch, and one tool more


@dataclass(frozen=True, slots=True)
class VectorBatch:
    """Some tools and their vectors; `keys` says what to keep new ones under."""

    tools: Sequence[Tool]
    vectors: Floats
    keys: Sequence[bytes] = ()


def embed_tools(
    tools: Sequence[Tool],
    embedder: Embedder,
    cache: VectorCache | None,
    *,
    read: TextRecipe = embedding_texts,
) -> Iterator[VectorBatch]:
    """Vectors in batches as they are had, those in the cache first."""
    keys = [_cache_key(embedder, t, read) for t in tools]
    known = _drop_odd_lengths(cache.get(keys)) if cache is not None else {}
    ready = [(t, known[k]) for t, k in zip(tools, keys, strict=True) if k in known]
    if ready:
        yield VectorBatch([t for t, _ in ready], _stack_rows([v for _, v in ready]))
    rest = [(t, k) for t, k in zip(tools, keys, strict=True) if k not in known]
    yield from _encode_in_batches(rest, embedder, read)


def embed_words(
    words: Sequence[str], embedder: Embedder, cache: VectorCache | None
) -> Iterator[tuple[Sequence[str], Floats]]:
    """Words and their vectors in batches, those in the cache first; new ones are kept there."""
    keys = {word: vector_key(embedder.id, ((word, 1.0),)) for word in words}
    known = _drop_odd_lengths(cache.get(tuple(keys.values()))) if cache is not None else {}
    if ready := [word for word in keys if keys[word] in known]:
        yield ready, _stack_rows([known[keys[word]] for word in ready])
    rest = [word for word in keys if keys[word] not in known]
    for start in range(0, len(rest), _WORD_BATCH):
        some = rest[start : start + _WORD_BATCH]
        vectors = normalize_rows(encode_texts(embedder, some)).astype(np.float16).astype(np.float32)
        if cache is not None:
            cache.put((keys[word], row) for word, row in zip(some, vectors, strict=True))
        yield some, vectors


def _cache_key(embedder: Embedder, tool: Tool, read: TextRecipe) -> bytes:
    """What a vector is kept under; what our own recipe reads is known without following it."""
    return vector_key(
        embedder.id, ((embedding_input(tool), 1.0),) if read is embedding_texts else read(tool)
    )


def _encode_in_batches(
    rest: Sequence[tuple[Tool, bytes]], embedder: Embedder, read: TextRecipe
) -> Iterator[VectorBatch]:
    """New vectors; a batch that fails is halved, so that one odd tool does not cost the others.

    What is left in the end is raised, and at once when the embedder says that it is down or when
    even single tools fail one after another.
    """
    work = deque(rest[start : start + _BATCH] for start in range(0, len(rest), _BATCH))
    failure: EmbedderError | None = None
    in_a_row = 0
    while work and in_a_row < _MAX_FAILURES_IN_A_ROW and not (failure and failure.is_transient):
        some = work.popleft()
        tools, keys = zip(*some, strict=True)
        try:
            vectors = encode_tools(tools, embedder, read=read)
        except EmbedderError as error:
            failure, in_a_row = error, in_a_row + 1
            middle = len(some) // 2
            work.extendleft([some[middle:], some[:middle]] if middle else [])
        else:
            in_a_row = 0
            yield VectorBatch(tools, vectors, keys)
    if failure is not None:
        raise failure


def encode_tools(
    tools: Sequence[Tool], embedder: Embedder, *, read: TextRecipe = embedding_texts
) -> Floats:
    """One vector a tool: the weighted mean of its texts' vectors, of length one.

    Rounded as the cache keeps it, so that a cold and a warm start give the same results.
    """
    parts = [read(t) for t in tools]
    flat = list(dict.fromkeys(text for part in parts for text, _ in part))
    rows = dict(zip(flat, encode_texts(embedder, flat), strict=True))
    sums = np.stack([sum(np.float32(w) * rows[t] for t, w in part) for part in parts])
    return normalize_rows(sums).astype(np.float16).astype(np.float32)


def _stack_rows(vectors: Sequence[Floats]) -> Floats:
    """Vectors of one length as a matrix; thousands of them sooner than by stacking."""
    return np.concatenate(vectors).reshape(len(vectors), -1)


def _drop_odd_lengths(known: dict[bytes, Floats]) -> dict[bytes, Floats]:
    """Vectors of one length; where a cache has others, the fewer are not to be trusted."""
    lengths = Counter(len(v) for v in known.values())
    if len(lengths) <= 1:
        return known
    usual = max(lengths, key=lambda length: (lengths[length], length))
    return {k: v for k, v in known.items() if len(v) == usual}


class VectorSink(Protocol):
    """Where vectors are wanted."""

    def tools_without_vectors(self, embedder: Embedder) -> list[Tool]:
        """The tools that an embedder has made no vector for."""
        ...

    def add_vectors(self, embedder: Embedder, tools: Sequence[Tool], vectors: Floats) -> None:
        """Put vectors in."""
        ...

    def words_to_embed(self, embedder: Embedder) -> Mapping[str, str]:
        """The terms whose words an embedder is to learn, each with its word."""
        ...

    def word_vectors(self, embedder: Embedder) -> Mapping[str, Floats]:
        """The words that an embedder has learnt, with their vectors."""
        ...

    def add_word_vectors(
        self, embedder: Embedder, words: Mapping[str, str], vectors: Floats
    ) -> None:
        """Put the vectors of words in, each word under its term."""
        ...


class EmbeddingWorker:
    """Fills an index with vectors, in the background or while the caller waits.

    After a failure the background tries again when it is reminded, though not too often.
    """

    def __init__(
        self,
        index: VectorSink,
        embedders: Sequence[Embedder],
        cache: VectorCache | None,
        *,
        read: TextRecipe = embedding_texts,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._index = index
        self._read = read
        self._embedders = embedders
        self._cache = cache
        self._retry_seconds = retry_seconds
        self._tried = monotonic()
        self._filling = Lock()
        self._handing = Lock()  # whether more is wanted, and who does it, change together
        self._is_wanted = self._is_filling = False
        self._thread: Thread | None = None
        self._stopped = Event()
        self.problem = ""

    @property
    def is_running(self) -> bool:
        """Whether vectors are being made now."""
        return self._is_wanted or self._is_filling

    def start(self) -> None:
        """Fill in the background; returns at once."""
        if not self._embedders:
            return
        with self._handing:
            if self._stopped.is_set():
                return
            self._is_wanted = True
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._run, name="toolscout-vectors", daemon=True)
                self._thread.start()

    def retry_if_due(self) -> None:
        """Try again what failed, if that was a while ago."""
        is_due = monotonic() - self._tried >= self._retry_seconds
        if self.problem and is_due and not self.is_running:
            self.start()

    def fill_now(self, progress: ProgressCallback | None = None) -> None:
        """Fill in the foreground; whatever the background has done already counts."""
        if self._embedders:
            with self._filling:
                self._claim_request()
                self._fill_all(progress)

    def close(self) -> None:
        """Stop after the batch at hand."""
        with self._handing:
            self._stopped.set()
            thread = self._thread
        if thread is not None:
            thread.join()
        if self._cache is not None:
            self._cache.close()

    def _run(self) -> None:
        while self._continue_or_exit():
            with self._filling:
                if self._claim_request():  # unless somebody who waited has done it meanwhile
                    self._fill_all(None)

    def _continue_or_exit(self) -> bool:
        """Whether to go on; once it says no, the next start begins a thread of its own."""
        with self._handing:
            if self._is_wanted and not self._stopped.is_set():
                return True
            self._thread = None
            return False

    def _claim_request(self) -> bool:
        with self._handing:
            is_wanted, self._is_wanted = self._is_wanted, False
            return is_wanted

    def _fill_all(self, progress: ProgressCallback | None) -> None:
        self._is_filling = True
        problem = ""
        try:
            for embedder in self._embedders:
                try:
                    self._fill_embedder(embedder, progress)
                except EmbedderError as error:
                    problem = str(error)
            self.problem = problem
        finally:
            self._tried = monotonic()
            self._is_filling = False

    def _fill_embedder(self, embedder: Embedder, progress: ProgressCallback | None) -> None:
        tools, words = (
            self._index.tools_without_vectors(embedder),
            self._index.words_to_embed(embedder),
        )
        done, total = 0, len(tools) + len(set(words.values()))
        for count in chain(self._fill_tools(tools, embedder), self._fill_words(words, embedder)):
            done += count
            if progress is not None:
                progress(done, total)
            if self._stopped.is_set():
                return

    def _fill_tools(self, tools: Sequence[Tool], embedder: Embedder) -> Iterator[int]:
        """The vectors of tools, put in as they come; says how many each time."""
        for batch in embed_tools(tools, embedder, self._cache, read=self._read):
            self._index.add_vectors(embedder, batch.tools, batch.vectors)
            if self._cache is not None and batch.keys:
                self._cache.put(zip(batch.keys, batch.vectors, strict=True))
            yield len(batch.tools)

    def _fill_words(self, words: Mapping[str, str], embedder: Embedder) -> Iterator[int]:
        """The vectors of words, put in once all of them are there; says how many each time."""
        if not words:
            return
        known = self._index.word_vectors(embedder)
        rows = {word: known[word] for word in words.values() if word in known}
        yield len(rows)
        rest = tuple(word for word in words.values() if word not in known)
        for some, vectors in embed_words(rest, embedder, self._cache):
            rows |= zip(some, vectors, strict=True)
            yield len(some)
        self._index.add_word_vectors(
            embedder, words, np.stack([rows[word] for word in words.values()])
        )
