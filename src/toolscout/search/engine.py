"""The search engine: rankers and a fusion over snapshots of the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from time import perf_counter

import numpy as np

from ..catalog.catalog import Catalog
from ..catalog.tool import Tool
from ..embedders.arrays import Floats, Mask
from ..embedders.cache import VectorStore
from ..embedders.embedder import Embedder, PieceEmbedder, has_vocabulary, knows_language
from ..embedders.tool_texts import TextRecipe, embedding_texts
from ..embedders.worker import (
    RETRY_SECONDS,
    EmbeddingWorker,
    FillListener,
    ProgressCallback,
    ignore_fill,
)
from .glossary import Glossary, usual_forms
from .hit import QueryHits, Results
from .index import Index
from .merging import MIN_MERGED_HITS, merge_queries
from .pipeline import STILL_COMPUTING, WITHOUT_VECTORS_PREFIX, Pipeline, run_query
from .query import Mode, parse_all
from .rankers.cross_lingual import CrossLingual
from .ranking import Allow, Arms, Fusion, Lift, Ranker, allow_mask, select_rankers, unwrap
from .recipe import default_rankers, fuse
from .spelling import Spelling

__all__ = ["Allow", "Arms", "Engine", "IndexStatus"]

# Usually a process has a handful of allow rules. A caller that creates a new one for every search
# must not fill the memory: a full cache is emptied.
_MAX_MASKS = 64
LANGUAGE_NOTE = (
    "Semantic search does not know this language, so results are less reliable: try English."
)
"""The note about a request in a language that no embedder knows."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A catalog and its index, replaced together; `masks` caches the slots of each allow rule."""

    catalog: Catalog
    index: Index
    # By identity: comparing two sets of thousands of names takes longer than a search.
    masks: dict[int, tuple[Allow, Mask]] = field(default_factory=dict[int, tuple[Allow, Mask]])

    def mask(self, allow: Allow | None) -> Mask:
        """The slots that a rule allows; computed once for rules that cannot change."""
        if allow is None:
            return self.index.alive
        if not (callable(allow) or isinstance(allow, frozenset)):
            return allow_mask(self.index, allow)  # a list or set may change between searches
        if (cached := self.masks.get(id(allow))) is None:
            if len(self.masks) >= _MAX_MASKS:
                self.masks.clear()
            mask = allow_mask(self.index, allow)
            # A rule that hides nothing costs nothing: rankers recognise `alive` itself.
            mask = self.index.alive if np.array_equal(mask, self.index.alive) else mask
            # The rule is stored too: while it is alive, no other object can get its id.
            cached = self.masks[id(allow)] = allow, mask
        return cached[1]


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """The state of the index: tools, vectors per embedder, and the last problem, if any."""

    tools: int
    vectors: dict[str, int]
    is_filling: bool
    problem: str

    @property
    def is_complete(self) -> bool:
        """Whether there is an embedder, and every tool has its vectors."""
        return bool(self.vectors) and all(n == self.tools for n in self.vectors.values())


class Engine:
    """Searches tools; safe to use from many threads while the catalog changes.

    Keyword search works at once. Vectors come from the cache or are computed in the background;
    until then search is keyword-only and says so in its notes. `fill()` waits for them. An embedder
    that failed is tried again by the first search after `retry_seconds`. Without embedders search
    is always keyword-only.

    You can replace the `rankers`, the `fusion` and the `text_recipe` (which texts of a tool are
    embedded). `corrects_typos` switches typo correction.
    `min_confidence` is the confidence from which on a search counts as answered. `on_fill` is
    called, in the thread that computes vectors, when that takes long and when it is over. `lift`
    adds what was learned from past use; a learner sets it.
    """

    def __init__(
        self,
        catalog: Catalog | None = None,
        *,
        embedders: Sequence[Embedder] = (),
        cache: VectorStore | None = None,
        rankers: Sequence[Ranker] | None = None,
        fusion: Fusion = fuse,
        text_recipe: TextRecipe = embedding_texts,
        corrects_typos: bool = True,
        min_confidence: float = 0.0,
        retry_seconds: float = RETRY_SECONDS,
        on_fill: FillListener = ignore_fill,
    ) -> None:
        self.embedders = tuple(embedders)
        self.min_confidence = min_confidence
        chosen = self.rankers = tuple(rankers or default_rankers(self.embedders))
        self.lift: Lift | None = None
        self.fusion = fusion
        self.text_recipe = text_recipe
        self.corrects_typos = corrects_typos
        self._word_checks = [e.is_word for e in self.embedders if has_vocabulary(e)]
        self._spelling = Spelling(self._is_word, self._is_wordlike) if corrects_typos else None
        self._rankers: Mapping[Arms, tuple[Ranker, ...]] = {
            arms: select_rankers(chosen, arms) for arms in ("all", "words", "vectors")
        }
        inner = map(unwrap, chosen)
        self._translator_ids = {r.embedder.id for r in inner if isinstance(r, CrossLingual)}
        # Only writers take the lock. Readers load `_snapshot` once per search, which is atomic, and
        # snapshots never change; so a search never waits and never sees half an update.
        self._write_lock = Lock()
        self._snapshot = Snapshot(Catalog(), Index())
        self._worker = EmbeddingWorker(
            self,
            self.embedders,
            cache,
            text_recipe=text_recipe,
            retry_seconds=retry_seconds,
            on_fill=on_fill,
        )
        if catalog is not None:
            self.update(catalog)

    @property
    def snapshot(self) -> Snapshot:
        """The catalog and the index that are searched now."""
        return self._snapshot

    @property
    def catalog(self) -> Catalog:
        """The catalog that is searched now."""
        return self._snapshot.catalog

    @property
    def problem(self) -> str:
        """Why vectors are missing, if an embedder failed."""
        return self._worker.problem

    @property
    def is_busy(self) -> bool:
        """Whether vectors of tools or words are being computed."""
        return self._worker.is_running

    def retry_if_due(self) -> None:
        """Try an embedder again that failed a while ago."""
        self._worker.retry_if_due()

    @property
    def status(self) -> IndexStatus:
        """The state of the index."""
        index = self._snapshot.index
        counts = {e.id: index.vector_count(e.id) for e in self.embedders}
        is_filling = self._worker.is_running and any(c < len(index) for c in counts.values())
        return IndexStatus(len(index), counts, is_filling, self.problem)

    def update(self, catalog: Catalog) -> None:
        """Switch to a newer catalog; only the differences are indexed."""
        with self._write_lock:
            old = self._snapshot
            change = catalog.diff(old.catalog)
            gone = (*change.removed, *(t.name for t in change.changed))
            try:
                index = old.index.without_tools(gone).with_tools((*change.added, *change.changed))
            except Exception:
                # The update may have written to the tables that snapshots share. Compacting copies
                # what is alive into new ones and leaves the rest behind.
                self._snapshot = Snapshot(old.catalog, old.index.compact())
                raise
            self._snapshot = Snapshot(catalog, index.compact() if index.needs_compaction else index)
        self._worker.start()

    def copy(self) -> Engine:
        """An engine with the same index, whose changes do not reach this one.

        It has no cache of vectors, and no lift from past use.
        """
        after = Engine(
            embedders=self.embedders,
            rankers=self.rankers,
            fusion=self.fusion,
            text_recipe=self.text_recipe,
            corrects_typos=self.corrects_typos,
            min_confidence=self.min_confidence,
        )
        # The table of terms is shared and grows, so both take turns to write to it.
        after._write_lock = self._write_lock
        with self._write_lock:
            old = self._snapshot
            after._snapshot = Snapshot(old.catalog, old.index.compact())
        return after

    def fill(self, progress: ProgressCallback | None = None) -> IndexStatus:
        """Wait until every tool has its vectors, or until an embedder fails.

        `progress` is called with how many tools and words are done, and how many there are to do,
        also for work that began in the background before.
        """
        self._worker.fill_now(progress)
        return self.status

    def close(self) -> None:
        """Stop computing vectors and close the cache."""
        self._worker.close()

    def sync(self) -> None:
        """Called before each search; an engine that follows another one takes over its changes."""

    def search(
        self,
        query: str | Sequence[str],
        *,
        limit: int = 5,
        allow: Allow | None = None,
        mode: Mode = "auto",
        arms: Arms = "all",
    ) -> Results:
        """Find the best tools for a query, or for several queries at once.

        `arms` restricts the search to keywords or to vectors; a name, a pattern or a filter in the
        query works in either.
        """
        started = perf_counter()
        self.sync()
        snapshot = self._snapshot
        index, mask = snapshot.index, snapshot.mask(allow)
        limit = max(0, limit)
        queries = parse_all(query, mode=mode)
        pipeline = self.pipeline(arms)
        depth = limit if len(queries) == 1 else max(limit, MIN_MERGED_HITS)
        each = [run_query(pipeline, index, q, mask, limit=depth) for q in queries]
        found = each[0] if len(each) == 1 else merge_queries(each, limit=limit)
        return Results(
            query=query if isinstance(query, str) else " · ".join(query),
            hits=found.hits,
            confidence=found.confidence,
            is_answered=found.confidence >= self.min_confidence,
            near=found.near,
            notes=self._add_notes(found, index, mask),
            took_ms=round((perf_counter() - started) * 1e6) / 1e3,
            evidence=found.evidence,
            is_selection=found.is_selection,
            vectors=found.vectors,
        )

    def pipeline(self, arms: Arms = "all") -> Pipeline:
        """The parts that rank."""
        can_read = None if arms == "words" else self._can_read
        return Pipeline(self._rankers[arms], self.fusion, self._spelling, self.lift, can_read)

    def _is_word(self, text: str) -> bool:
        return any(is_word(text) for is_word in self._word_checks)

    def _is_wordlike(self, text: str) -> bool:
        return any(e.is_wordlike(text) for e in self.embedders if isinstance(e, PieceEmbedder))

    def tools_without_vectors(self, embedder: Embedder) -> list[Tool]:
        """The tools that have no vector from an embedder yet."""
        index = self._snapshot.index
        return [index.tool(slot) for slot in index.slots_without_vectors(embedder.id)]

    def add_vectors(self, embedder: Embedder, tools: Sequence[Tool], vectors: Floats) -> None:
        """Store vectors; those of tools that changed or were removed meanwhile are ignored."""
        with self._write_lock:
            old = self._snapshot
            found = [(i, slot) for i, t in enumerate(tools) if (slot := old.index.slot_of(t)) >= 0]
            if found:
                rows, slots = zip(*found, strict=True)
                if len(rows) < len(vectors):
                    vectors = vectors[list(rows)]
                index = old.index.with_vectors(embedder.id, np.array(slots, np.int32), vectors)
                self._snapshot = replace(old, index=index)

    def fit_vectors(self, embedder: Embedder, *, added: int) -> None:
        """Adapt to vectors that were added in many batches, as if they had come at once."""
        with self._write_lock:
            index = self._snapshot.index.with_fitted_vectors(embedder.id, added=added)
            self._snapshot = replace(self._snapshot, index=index)

    def words_to_embed(self, embedder: Embedder) -> Mapping[str, str]:
        """The terms whose words an embedder should encode, each with its word."""
        snapshot = self._snapshot
        known = snapshot.index.glossaries.get(embedder.id)
        size = len(snapshot.index.lexicon.vocabulary)
        is_wanted = embedder.id in self._translator_ids and size > 0
        if not is_wanted or (known is not None and not known.is_outgrown(size)):
            return {}
        return {term: word for term, (word, _) in usual_forms(snapshot.catalog).items()}

    def word_vectors(self, embedder: Embedder) -> Mapping[str, Floats]:
        """The words that an embedder has encoded, with their vectors."""
        known = self._snapshot.index.glossaries.get(embedder.id)
        return {} if known is None else dict(zip(known.words, known.vectors, strict=True))

    def add_word_vectors(
        self, embedder: Embedder, words: Mapping[str, str], vectors: Floats
    ) -> None:
        """Store the vectors of words, each under its term."""
        snapshot = self._snapshot
        size = len(snapshot.index.lexicon.vocabulary)
        languages = {term: its for term, (_, its) in usual_forms(snapshot.catalog).items()}
        glossary = Glossary.of(words, vectors, languages=languages, size=size)
        with self._write_lock:
            index = self._snapshot.index.with_glossary(embedder.id, glossary)
            self._snapshot = replace(self._snapshot, index=index)

    def _add_notes(self, found: QueryHits, index: Index, mask: Mask) -> tuple[str, ...]:
        """The notes, with one about an unknown language or missing vectors, if any."""
        text = self._missing_vectors_note(index, mask)
        has_problem = bool(self.problem)
        # A request that is the name of a tool needs no advice.
        if found.confidence < 1 and not found.is_readable:
            text = text if has_problem else LANGUAGE_NOTE
        # A query that was not encoded has a note that vectors did not count.
        elif not has_problem and any(
            note.startswith(WITHOUT_VECTORS_PREFIX) for note in found.notes
        ):
            text = ""
        return tuple(dict.fromkeys((*found.notes, text) if text else found.notes))

    def _can_read(self, text: str) -> bool:
        """Whether an embedder knows the language of a text; true without embedders."""
        return not self.embedders or any(knows_language(e, text) for e in self.embedders)

    def _missing_vectors_note(self, index: Index, mask: Mask) -> str:
        if not self.embedders:
            return ""
        if self.problem:
            self.retry_if_due()
        if all(index.vector_count(e.id) == len(index) for e in self.embedders):
            return ""
        missing = max(int((mask & ~index.vector_mask(e.id)).sum()) for e in self.embedders)
        if not missing:
            return ""
        if problem := self.problem:
            rest = "with keywords only" if not index.vectors else "without some vectors"
            return f"Searched {rest}: {problem}"
        return f"{STILL_COMPUTING} for {missing} of {int(mask.sum())} tools."
