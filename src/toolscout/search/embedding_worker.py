"""Compute the vectors of a catalog in the background: from the cache, or encoded in batches."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from threading import Event, Lock, Thread
from time import monotonic
from typing import Protocol

import numpy as np

from ..catalog.tool import Tool
from ..errors import EmbedderError
from .arrays import Floats
from .embedders.cache import VectorCache, vector_key
from .embedders.embedder import Embedder, encode_texts, normalize_rows
from .fields import TextRecipe, embedding_input, embedding_texts

ProgressCallback = Callable[[int, int], None]
"""Called with the number of tools and words that have vectors, and the number of all of them."""

RETRY_SECONDS = 30.0
"""The shortest time between a failure and the next attempt in the background."""

_BATCH = 32
_WORD_BATCH = 128  # words are far shorter than the texts of a tool
# Halving a failed batch down to one bad tool takes six attempts that may all fail. If the tool
# after it fails as well, the embedder itself is the problem.
_MAX_FAILURES_IN_A_ROW = _BATCH.bit_length() + 1


@dataclass(frozen=True, slots=True)
class VectorBatch:
    """Some tools and their vectors; new vectors come with their cache `keys`."""

    tools: Sequence[Tool]
    vectors: Floats
    keys: Sequence[bytes] = ()


def embed_tools(
    tools: Sequence[Tool],
    embedder: Embedder,
    cache: VectorCache | None,
    *,
    text_recipe: TextRecipe = embedding_texts,
) -> Iterator[VectorBatch]:
    """Vectors in batches as they become available, cached ones first."""
    keys = [_cache_key(embedder, t, text_recipe) for t in tools]
    known = _drop_odd_lengths(cache.get(keys)) if cache is not None else {}
    ready = [(t, known[k]) for t, k in zip(tools, keys, strict=True) if k in known]
    if ready:
        yield VectorBatch([t for t, _ in ready], _stack_rows([v for _, v in ready]))
    rest = [(t, k) for t, k in zip(tools, keys, strict=True) if k not in known]
    yield from _encode_in_batches(rest, embedder, text_recipe)


def embed_words(
    words: Sequence[str], embedder: Embedder, cache: VectorCache | None
) -> Iterator[tuple[Sequence[str], Floats]]:
    """Words and their vectors in batches, cached ones first; new ones are added to the cache."""
    keys = {word: vector_key(embedder.id, ((word, 1.0),)) for word in words}
    known = _drop_odd_lengths(cache.get(tuple(keys.values()))) if cache is not None else {}
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


def _drop_odd_lengths(known: dict[bytes, Floats]) -> dict[bytes, Floats]:
    """The vectors of the most common length; a cache with several lengths has wrong entries."""
    lengths = Counter(len(v) for v in known.values())
    if len(lengths) <= 1:
        return known
    usual = max(lengths, key=lambda length: (lengths[length], length))
    return {k: v for k, v in known.items() if len(v) == usual}


class VectorSink(Protocol):
    """Where the worker finds what to encode, and stores the vectors."""

    def tools_without_vectors(self, embedder: Embedder) -> list[Tool]:
        """The tools that have no vector from an embedder yet."""
        ...

    def add_vectors(self, embedder: Embedder, tools: Sequence[Tool], vectors: Floats) -> None:
        """Store the vectors of tools."""
        ...

    def words_to_embed(self, embedder: Embedder) -> Mapping[str, str]:
        """The terms whose words an embedder should encode, each with its word."""
        ...

    def word_vectors(self, embedder: Embedder) -> Mapping[str, Floats]:
        """The words that an embedder has encoded, with their vectors."""
        ...

    def add_word_vectors(
        self, embedder: Embedder, words: Mapping[str, str], vectors: Floats
    ) -> None:
        """Store the vectors of words, each under its term."""
        ...


class EmbeddingWorker:
    """Fills an index with vectors, in a background thread or while the caller waits.

    After a failure it tries again when `retry_if_due` is called, but not too often.
    """

    def __init__(
        self,
        sink: VectorSink,
        embedders: Sequence[Embedder],
        cache: VectorCache | None,
        *,
        text_recipe: TextRecipe = embedding_texts,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._sink = sink
        self._text_recipe = text_recipe
        self._embedders = embedders
        self._cache = cache
        self._retry_seconds = retry_seconds
        self._last_attempt = monotonic()
        # Two locks. `_fill_lock` is held while vectors are computed, which may take minutes.
        # `_state_lock` guards the request flag and the thread together, and is held for an instant:
        # else a thread could decide to exit just when `start` relies on it.
        self._fill_lock = Lock()
        self._state_lock = Lock()
        self._is_requested = self._is_filling = False
        self._thread: Thread | None = None
        self._stopped = Event()
        self.problem = ""

    @property
    def is_running(self) -> bool:
        """Whether vectors are being computed, or about to be."""
        return self._is_requested or self._is_filling

    def start(self) -> None:
        """Fill in the background; returns at once."""
        if not self._embedders:
            return
        with self._state_lock:
            if self._stopped.is_set():
                return
            self._is_requested = True
            # A thread may also be dead without saying so: after a fork, or after an error that is
            # not an EmbedderError.
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._run, name="toolscout-vectors", daemon=True)
                self._thread.start()

    def retry_if_due(self) -> None:
        """Start again after a failure, if `retry_seconds` have passed."""
        is_due = monotonic() - self._last_attempt >= self._retry_seconds
        if self.problem and is_due and not self.is_running:
            self.start()

    def fill_now(self, progress: ProgressCallback | None = None) -> None:
        """Fill in the foreground; the background does not repeat the work."""
        if self._embedders:
            with self._fill_lock:
                self._claim_request()
                self._fill_all(progress)

    def close(self) -> None:
        """Stop after the current batch, and close the cache."""
        with self._state_lock:
            self._stopped.set()
            thread = self._thread
        if thread is not None:
            thread.join()
        if self._cache is not None:
            self._cache.close()

    def _run(self) -> None:
        while self._continue_or_exit():
            with self._fill_lock:
                if self._claim_request():  # `fill_now` may have claimed it meanwhile
                    self._fill_all(None)

    def _continue_or_exit(self) -> bool:
        """Whether the thread has more to do; if not, the next `start` creates another thread."""
        with self._state_lock:
            if self._is_requested and not self._stopped.is_set():
                return True
            self._thread = None
            return False

    def _claim_request(self) -> bool:
        # Claimed before the work starts: tools that are added from now on make a new request.
        with self._state_lock:
            was_requested, self._is_requested = self._is_requested, False
            return was_requested

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
            self._last_attempt = monotonic()
            self._is_filling = False

    def _fill_embedder(self, embedder: Embedder, progress: ProgressCallback | None) -> None:
        tools = self._sink.tools_without_vectors(embedder)
        words = self._sink.words_to_embed(embedder)
        done, total = 0, len(tools) + len(set(words.values()))
        for count in chain(self._fill_tools(tools, embedder), self._fill_words(words, embedder)):
            done += count
            if progress is not None:
                progress(done, total)
            if self._stopped.is_set():
                return

    def _fill_tools(self, tools: Sequence[Tool], embedder: Embedder) -> Iterator[int]:
        """Store the vectors of tools batch by batch; yield the size of each batch."""
        for batch in embed_tools(tools, embedder, self._cache, text_recipe=self._text_recipe):
            self._sink.add_vectors(embedder, batch.tools, batch.vectors)
            if self._cache is not None and batch.keys:
                self._cache.put(zip(batch.keys, batch.vectors, strict=True))
            yield len(batch.tools)

    def _fill_words(self, words: Mapping[str, str], embedder: Embedder) -> Iterator[int]:
        """Store the vectors of words; yield the size of each batch."""
        if not words:
            return
        # Stored at the end, all at once: hubness is computed over the whole glossary.
        known = self._sink.word_vectors(embedder)
        rows = {word: known[word] for word in words.values() if word in known}
        yield len(rows)
        rest = tuple(word for word in words.values() if word not in known)
        for batch, vectors in embed_words(rest, embedder, self._cache):
            rows |= zip(batch, vectors, strict=True)
            yield len(batch)
        self._sink.add_word_vectors(
            embedder, words, np.stack([rows[word] for word in words.values()])
        )
