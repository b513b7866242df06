"""A search over a part of another engine's catalog, as if the rest of it did not exist.

A mask (`allow`) hides tools from the hits, but not from the statistics: idf, means, deviations, the
words that typos are corrected to. Somebody who compares scores can then test for a word of a tool
that is hidden from them. An engine with an index of its own has no such trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

import numpy as np

from ..catalog.catalog import Catalog
from ..embedders.arrays import Floats
from ..embedders.embedder import Embedder
from ..embedders.worker import EmbeddingWorker, ProgressCallback
from .engine import Engine, Snapshot

CatalogPart = Callable[[Catalog], Catalog]
"""Returns the part of a catalog that is searched."""


class RestrictedEngine(Engine):
    """Searches a part of the catalog of `whole`, with statistics of that part alone.

    It follows changes of `whole` at the next search. Vectors are copied from there; only tools and
    words that `whole` has not encoded itself are encoded here, in the background.
    """

    def __init__(self, whole: Engine, select: CatalogPart) -> None:
        super().__init__(
            embedders=whole.embedders,
            rankers=whole.rankers,
            fusion=whole.fusion,
            text_recipe=whole.text_recipe,
            corrects_typos=whole.corrects_typos,
            min_confidence=whole.min_confidence,
        )
        self._whole = whole
        self._select = select
        self._sync_lock = Lock()
        self._seen: Snapshot | None = None
        self._is_postponed = False
        self._worker = _BorrowingWorker(self, whole)

    @property
    def problem(self) -> str:
        """Why vectors are missing, if an embedder failed."""
        return self._whole.problem or self._worker.problem

    def sync(self) -> None:
        """Take over what has changed in the whole catalog and its vectors."""
        self.lift = self._whole.lift  # a learner may be attached at any time
        if self._whole.snapshot is self._seen and not self._is_postponed:
            return
        with self._sync_lock:
            now, seen = self._whole.snapshot, self._seen
            if seen is None or now.catalog is not seen.catalog:
                self.update(self._select(now.catalog))
            else:
                self._worker.start()
            self._seen = now

    def take_over_vectors(self) -> None:
        """Copy the vectors that `whole` has by now."""
        index = self._whole.snapshot.index
        for embedder in self.embedders:
            vectors = index.vectors.get(embedder.id)
            missing = self.tools_without_vectors(embedder) if vectors is not None else ()
            slots = np.array([index.slot_of(tool) for tool in missing], np.int32)
            if vectors is None or not len(slots):
                continue
            is_known = (slots >= 0) & vectors.present[slots]
            tools = [tool for tool, known in zip(missing, is_known, strict=True) if known]
            if tools:
                self.add_vectors(embedder, tools, vectors.rows[slots[is_known]].astype(np.float32))

    def start_own_work(self, start: Callable[[], None]) -> None:
        """Encode what is missing, unless `whole` is still at work and may encode it."""
        self._is_postponed = self._whole.is_busy
        if not self._is_postponed:
            start()

    def word_vectors(self, embedder: Embedder) -> Mapping[str, Floats]:
        """The words that are encoded here or in `whole`, with their vectors."""
        return {**self._whole.word_vectors(embedder), **super().word_vectors(embedder)}


class _BorrowingWorker(EmbeddingWorker):
    """Takes vectors over from another engine before it computes any."""

    def __init__(self, engine: RestrictedEngine, whole: Engine) -> None:
        # Without a cache: what is encoded here differs by caller, and is little.
        super().__init__(engine, engine.embedders, None, text_recipe=engine.text_recipe)
        self._engine = engine
        self._whole = whole

    def start(self) -> None:
        """Take over vectors, and compute the others in the background."""
        self._engine.take_over_vectors()
        self._engine.start_own_work(super().start)

    def retry_if_due(self) -> None:
        """Leave a new attempt to the other engine, unless the failure is not its own."""
        if self._whole.problem:
            self._whole.retry_if_due()
        else:
            super().retry_if_due()

    def fill_now(self, progress: ProgressCallback | None = None) -> None:
        """Wait until the other engine has its vectors, and compute what is still missing."""
        self._whole.fill(progress)
        self._engine.sync()
        self._engine.take_over_vectors()
        super().fill_now()
