"""Vectors for a catalog: from the cache where known, encoded in batches where not."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from threading import Event, Lock, Thread
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..catalog.tool import Tool
from ..errors import EmbedderError
from .embedders.cache import VectorCache, key
from .embedders.embedder import Embedder
from .fields import texts

Floats = npt.NDArray[np.float32]
Progress = Callable[[int, int], None]
"""Told how many of how many tools have their vectors."""

_BATCH = 32


def vectors_for(
    tools: Sequence[Tool], embedder: Embedder, cache: VectorCache | None
) -> Generator[tuple[Sequence[Tool], Floats]]:
    """Vectors in batches as they are had, those in the cache first."""
    keys = [key(embedder.id, texts(t)) for t in tools]
    known = cache.get(keys) if cache is not None else {}
    ready = [(t, known[k]) for t, k in zip(tools, keys, strict=True) if k in known]
    if ready:
        yield [t for t, _ in ready], np.stack([v for _, v in ready])
    rest = [(t, k) for t, k in zip(tools, keys, strict=True) if k not in known]
    for start in range(0, len(rest), _BATCH):
        some = rest[start : start + _BATCH]
        vectors = encode([t for t, _ in some], embedder)
        if cache is not None:
            cache.put(zip((k for _, k in some), vectors, strict=True))
        yield [t for t, _ in some], vectors


def encode(tools: Sequence[Tool], embedder: Embedder) -> Floats:
    """One vector a tool: the weighted mean of its texts' vectors, of length one.

    Rounded as the cache keeps it, so that a cold and a warm start give the same results.
    """
    parts = [texts(t) for t in tools]
    flat = list(dict.fromkeys(text for part in parts for text, _ in part))
    rows = dict(zip(flat, embedder.encode(flat), strict=True))
    sums = np.stack([sum(np.float32(w) * rows[t] for t, w in part) for part in parts])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    unit = sums / np.where(lengths > 0, lengths, 1)
    return unit.astype(np.float16).astype(np.float32)


class Index(Protocol):
    """Where vectors are wanted."""

    def lacking(self, embedder: Embedder) -> list[Tool]:
        """The tools that an embedder has made no vector for."""
        ...

    def take(self, embedder: Embedder, tools: Sequence[Tool], vectors: Floats) -> None:
        """Put vectors in."""
        ...


class Filler:
    """Fills an index with vectors, in the background or while the caller waits."""

    def __init__(
        self, index: Index, embedders: Sequence[Embedder], cache: VectorCache | None
    ) -> None:
        self._index = index
        self._embedders = embedders
        self._cache = cache
        self._working = Lock()
        self._stopped = Event()
        self._wanted = Event()
        self._thread: Thread | None = None
        self.problem = ""

    @property
    def is_running(self) -> bool:
        """Whether vectors are being made now."""
        return self._working.locked()

    def start(self) -> None:
        """Fill in the background; returns at once."""
        if not self._embedders or self._stopped.is_set():
            return
        self._wanted.set()
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=self._loop, name="toolscout-vectors", daemon=True)
            self._thread.start()

    def finish(self, progress: Progress | None = None) -> None:
        """Fill in the foreground; whatever the background has done already counts."""
        if self._embedders:
            self._wanted.clear()
            self._fill(progress)

    def close(self) -> None:
        """Stop after the batch at hand."""
        self._stopped.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()
        if self._cache is not None:
            self._cache.close()

    def _loop(self) -> None:
        while self._wanted.is_set() and not self._stopped.is_set():
            self._wanted.clear()
            self._fill(None)

    def _fill(self, progress: Progress | None) -> None:
        with self._working:
            problem = ""
            for embedder in self._embedders:
                try:
                    self._one(embedder, progress)
                except EmbedderError as error:
                    problem = str(error)
            self.problem = problem

    def _one(self, embedder: Embedder, progress: Progress | None) -> None:
        tools = self._index.lacking(embedder)
        done = 0
        with closing(vectors_for(tools, embedder, self._cache)) as batches:
            for some, vectors in batches:
                self._index.take(embedder, some, vectors)
                done += len(some)
                if progress is not None:
                    progress(done, len(tools))
                if self._stopped.is_set():
                    return
