"""Compute the vectors of a catalog in the background: from the cache, or encoded in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from threading import Event, Lock, Thread, Timer
from time import monotonic
from typing import Protocol

import numpy as np

from ..catalog.tool import Tool
from ..errors import EmbedderError
from .arrays import Floats
from .cache import VectorStore, embed_tools, embed_words
from .embedder import Embedder
from .tool_texts import TextRecipe, embedding_texts

ProgressCallback = Callable[[int, int], None]
"""Called with the number of tools and words that are done, and the number that there is to do.

The first never decreases, and reaches the second unless an embedder fails. Calls come from the
thread that waits.
"""

POLL_SECONDS = 0.1
"""How often the progress of the background is read by a thread that waits for it."""

SLOW_SECONDS = 1.0
"""Listeners are notified of a fill that takes longer than this while it runs."""


@dataclass(frozen=True, slots=True)
class FillReport:
    """A fill that takes long, or that computed vectors and is over."""

    is_over: bool
    done: int
    total: int
    took_seconds: float


FillListener = Callable[[FillReport], None]
"""Called in a thread of the worker."""


def ignore_fill(_: FillReport) -> None:
    """A listener that does nothing."""


RETRY_SECONDS = 30.0
"""The shortest time between a failure and the next attempt in the background."""


class VectorSink(Protocol):
    """Where the worker finds what to encode, and stores the vectors."""

    def tools_without_vectors(self, embedder: Embedder) -> list[Tool]:
        """The tools that have no vector from an embedder yet."""
        ...

    def add_vectors(self, embedder: Embedder, tools: Sequence[Tool], vectors: Floats) -> None:
        """Store the vectors of tools."""
        ...

    def fit_vectors(self, embedder: Embedder, *, added: int) -> None:
        """Adapt to vectors that were added in many batches, as if they had come at once."""
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
        cache: VectorStore | None,
        *,
        text_recipe: TextRecipe = embedding_texts,
        retry_seconds: float = RETRY_SECONDS,
        on_fill: FillListener = ignore_fill,
    ) -> None:
        self._sink = sink
        self._text_recipe = text_recipe
        self._embedders = embedders
        self._cache = cache
        self._retry_seconds = retry_seconds
        self._on_fill = on_fill
        self._last_attempt = monotonic()
        # Two locks. `_fill_lock` is held while vectors are computed, which may take minutes.
        # `_state_lock` guards the request flag and the thread together, and is held for an instant:
        # else a thread could decide to exit just when `start` relies on it.
        self._fill_lock = Lock()
        self._state_lock = Lock()
        self._is_requested = self._is_filling = False
        self._thread: Thread | None = None
        self._stopped = Event()
        self._fill = _Fill(0)
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
        """Wait for the background, whose progress is reported too, and fill what is missing."""
        if not self._embedders:
            return
        reporter = _Reporter(progress)
        # With a timeout, so that the waiting thread can report, and reacts to Ctrl-C on Windows
        # too.
        while not self._fill_lock.acquire(timeout=POLL_SECONDS):
            reporter.report(self._fill)
        try:
            self._claim_request()
            self._fill_all(reporter)
        finally:
            self._fill_lock.release()
        if not self.problem:
            reporter.report(self._fill)

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

    def _fill_all(self, reporter: _Reporter | None) -> None:
        self._is_filling = True
        problem = ""
        try:
            tools = [self._sink.tools_without_vectors(e) for e in self._embedders]
            words = [self._sink.words_to_embed(e) for e in self._embedders]
            total = sum(map(len, tools)) + sum(len(set(w.values())) for w in words)
            if total:
                self._fill = _Fill(total)
                self._fill.watch(self._report_slow)
            for embedder, new, its_words in zip(self._embedders, tools, words, strict=True):
                try:
                    self._fill_embedder(embedder, new, its_words, reporter)
                except EmbedderError as error:
                    problem = str(error)
            self.problem = problem
        finally:
            self._last_attempt = monotonic()
            self._is_filling = False
            self._fill.end()
        if self._fill.is_reportable and self._fill.done and not self._stopped.is_set():
            self._fill.is_reportable = False
            self._on_fill(self._fill.describe(is_over=True))

    def _report_slow(self, report: FillReport) -> None:
        if not self._stopped.is_set():
            self._on_fill(report)

    def _fill_embedder(
        self,
        embedder: Embedder,
        tools: Sequence[Tool],
        words: Mapping[str, str],
        reporter: _Reporter | None,
    ) -> None:
        fill = self._fill
        for count in chain(self._fill_tools(tools, embedder), self._fill_words(words, embedder)):
            fill.done += count
            if reporter is not None:
                reporter.report(fill)
            if self._stopped.is_set():
                return

    def _fill_tools(self, tools: Sequence[Tool], embedder: Embedder) -> Iterator[int]:
        """Store the vectors of tools batch by batch; yield the size of each batch."""
        cached = 0
        try:
            for batch in embed_tools(tools, embedder, self._cache, text_recipe=self._text_recipe):
                self._sink.add_vectors(embedder, batch.tools, batch.vectors)
                if self._cache is not None and batch.keys:
                    self._cache.put(zip(batch.keys, batch.vectors, strict=True))
                if batch.keys:
                    self._fill.is_reportable = True
                else:
                    cached += len(batch.tools)
                yield len(batch.tools)
        finally:
            if cached and not self._stopped.is_set():
                self._sink.fit_vectors(embedder, added=cached)

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


class _Fill:
    """How far the last fill that had something to do is."""

    def __init__(self, total: int) -> None:
        self.done = 0
        self.total = total
        self.is_reportable = False  # vectors were computed, or it takes long
        self._started = monotonic()
        self._lock = Lock()
        self._timer: Timer | None = None

    def watch(self, listener: FillListener) -> None:
        """Tell a listener once it takes long."""
        # By a timer, because the first batch waits for the embedder to load, for most of the time.
        self._timer = Timer(SLOW_SECONDS, self._report_slow, [listener])
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Report nothing from now on."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _report_slow(self, listener: FillListener) -> None:
        with self._lock:
            if self._timer is not None:
                self.is_reportable = True
                listener(self.describe(is_over=False))

    def describe(self, *, is_over: bool) -> FillReport:
        return FillReport(is_over, self.done, self.total, self._seconds)

    @property
    def _seconds(self) -> float:
        return monotonic() - self._started


class _Reporter:
    """Passes progress on where it changes, and never backwards."""

    # The background may be followed by a fill of what was added meanwhile, which counts from zero.

    def __init__(self, callback: ProgressCallback | None) -> None:
        self._callback = callback
        self._last = (0, 0)

    def report(self, fill: _Fill) -> None:
        done, total = max(fill.done, self._last[0]), max(fill.total, self._last[1])
        if self._callback is not None and done and (done, total) != self._last:
            self._last = (done, total)
            self._callback(done, total)
