"""The search engine: rankers and a fusion over snapshots of the catalog."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from time import perf_counter

import numpy as np

from ..catalog.catalog import Catalog
from ..catalog.tool import Tool
from .analyzer import latin_share
from .arrays import Floats, Mask
from .embedders.cache import VectorCache
from .embedders.embedder import Embedder, has_vocabulary, is_cross_lingual
from .embedding_worker import (
    RETRY_SECONDS,
    EmbeddingWorker,
    FillListener,
    ProgressCallback,
    ignore_fill,
)
from .fields import TextRecipe, embedding_texts
from .glossary import Glossary, common_words
from .hit import Results
from .index import Index
from .merging import MIN_MERGED_HITS, merge_queries
from .pipeline import Pipeline, run_query
from .query import Mode, parse_all
from .rankers.bm25f import BM25F
from .rankers.cross_lingual import CrossLingual
from .rankers.dense import Dense
from .rankers.exact import Exact
from .rankers.usage import UsageRanker
from .ranking import Allow, Arms, Fusion, Ranker, allow_mask, select_rankers, unwrap
from .recipe import fuse
from .spelling import Spelling

__all__ = ["Allow", "Arms", "Engine", "IndexStatus", "default_rankers"]

# Usually a process has a handful of allow rules. A caller that creates a new one for every search
# must not fill the memory: a full cache is emptied.
_MAX_MASKS = 64
_LATIN_WORD = re.compile(r"[^\W\d_]{3,}")
_MAX_CHECKED_CHARS = 500


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
            # The rule is stored too: while it is alive, no other object can get its id.
            cached = self.masks[id(allow)] = allow, allow_mask(self.index, allow)
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
    called, in the thread that computes vectors, when that takes long and when it is over. `usage`
    is the ranker that past use is learned by, if there is one.
    """

    def __init__(
        self,
        catalog: Catalog | None = None,
        *,
        embedders: Sequence[Embedder] = (),
        cache: VectorCache | None = None,
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
        chosen = tuple(rankers or default_rankers(self.embedders))
        spelling = Spelling(is_word=_find_word_checker(self.embedders)) if corrects_typos else None
        self.usage = next((r for r in map(unwrap, chosen) if isinstance(r, UsageRanker)), None)
        traced = self.usage.trace(fusion) if self.usage is not None else fusion
        pipeline = Pipeline(chosen, traced, spelling)
        self._pipelines: Mapping[Arms, Pipeline] = {
            arms: replace(pipeline, rankers=select_rankers(chosen, arms))
            for arms in ("all", "words", "vectors")
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
    def catalog(self) -> Catalog:
        """The catalog that is searched now."""
        return self._snapshot.catalog

    @property
    def status(self) -> IndexStatus:
        """The state of the index."""
        index = self._snapshot.index
        counts = {e.id: index.vector_count(e.id) for e in self.embedders}
        is_filling = self._worker.is_running and any(c < len(index) for c in counts.values())
        return IndexStatus(len(index), counts, is_filling, self._worker.problem)

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
        snapshot = self._snapshot
        index, mask = snapshot.index, snapshot.mask(allow)
        limit = max(0, limit)
        queries = parse_all(query, mode=mode)
        pipeline = self._pipelines[arms]
        depth = limit if len(queries) == 1 else max(limit, MIN_MERGED_HITS)
        each = [run_query(pipeline, index, q, mask, limit=depth) for q in queries]
        found = each[0] if len(each) == 1 else merge_queries(each, limit=limit)
        return Results(
            query=query if isinstance(query, str) else " · ".join(query),
            hits=found.hits,
            confidence=found.confidence,
            is_answered=found.confidence >= self.min_confidence,
            near=found.near,
            notes=tuple(dict.fromkeys((*found.notes, *self._vector_notes(index, mask)))),
            took_ms=round((perf_counter() - started) * 1e6) / 1e3,
            evidence=found.evidence,
            is_selection=found.is_selection,
            vectors=found.vectors,
        )

    def knows_words(self, text: str) -> bool:
        """Whether an embedder knows any word of a text; true where none can say."""
        checkers = [e.is_word for e in self.embedders if has_vocabulary(e)]
        words = _LATIN_WORD.findall(text[:_MAX_CHECKED_CHARS].casefold())
        # Other scripts have words of a letter or two, which say nothing.
        is_latin = latin_share(text) == 1
        if not (checkers and words and is_latin):
            return True
        return any(is_word(word) for is_word in checkers for word in words)

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

    def words_to_embed(self, embedder: Embedder) -> Mapping[str, str]:
        """The terms whose words an embedder should encode, each with its word."""
        snapshot = self._snapshot
        known = snapshot.index.glossaries.get(embedder.id)
        size = len(snapshot.index.lexicon.vocabulary)
        is_wanted = embedder.id in self._translator_ids and size > 0
        if not is_wanted or (known is not None and not known.is_outgrown(size)):
            return {}
        return common_words(snapshot.catalog)

    def word_vectors(self, embedder: Embedder) -> Mapping[str, Floats]:
        """The words that an embedder has encoded, with their vectors."""
        known = self._snapshot.index.glossaries.get(embedder.id)
        return {} if known is None else dict(zip(known.words, known.vectors, strict=True))

    def add_word_vectors(
        self, embedder: Embedder, words: Mapping[str, str], vectors: Floats
    ) -> None:
        """Store the vectors of words, each under its term."""
        glossary = Glossary.of(words, vectors, size=len(self._snapshot.index.lexicon.vocabulary))
        with self._write_lock:
            index = self._snapshot.index.with_glossary(embedder.id, glossary)
            self._snapshot = replace(self._snapshot, index=index)

    def _vector_notes(self, index: Index, mask: Mask) -> Sequence[str]:
        """Notes about missing vectors, which count only the tools that the caller may see."""
        if not self.embedders:
            return ()
        if self._worker.problem:
            self._worker.retry_if_due()
        if all(index.vector_count(e.id) == len(index) for e in self.embedders):
            return ()
        missing = max(int((mask & ~index.vector_mask(e.id)).sum()) for e in self.embedders)
        if not missing:
            return ()
        if problem := self._worker.problem:
            rest = "with keywords only" if not index.vectors else "without some vectors"
            return (f"Searched {rest}: {problem}",)
        return (f"Vectors are still being computed for {missing} of {int(mask.sum())} tools.",)


def _find_word_checker(embedders: Sequence[Embedder]) -> Callable[[str], bool]:
    """The vocabulary check of the first embedder that has one."""
    checkers = [e.is_word for e in embedders if has_vocabulary(e)]
    return checkers[0] if checkers else _is_never_word


def _is_never_word(_: str) -> bool:
    return False


def default_rankers(embedders: Sequence[Embedder]) -> Iterator[Ranker]:
    """Names, words, vectors of each embedder, translated words from the first that can, and use."""
    yield Exact()
    yield BM25F()
    usage = [UsageRanker(Dense(embedder)) for embedder in embedders[:1]]
    yield from (ranker.dense for ranker in usage)
    yield from (Dense(embedder) for embedder in embedders[1:])
    yield from (CrossLingual(embedder) for embedder in [*filter(is_cross_lingual, embedders)][:1])
    yield from usage
