"""The engine: a list of rankers and a fusion over snapshots of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from time import perf_counter

import numpy as np

from ..catalog.catalog import Catalog
from ..catalog.tool import Tool
from .candidate_filter import Allow, allow_mask
from .embedders.cache import VectorCache
from .embedders.embedder import Embedder, Floats, has_vocabulary, is_cross_lingual
from .embedding_worker import RETRY_SECONDS, EmbeddingWorker, ProgressCallback
from .fields import TextRecipe, embedding_texts
from .fusion import zscore
from .glossary import Glossary, common_words
from .hit import Results
from .index import Index
from .pipeline import Pipeline, merge_results, run_query
from .preprocessing import QueryPreprocessor, prepare_query
from .query import Mode, parse_all
from .rankers.bm25f import BM25F
from .rankers.cross_lingual import CrossLingual
from .rankers.dense import Dense
from .rankers.exact import Exact
from .ranking import Fusion, Mask, Ranker
from .spelling_index import SpellingIndex

__all__ = ["Allow", "Engine", "IndexStatus"]

_MASKS = 64


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A catalog and its index, swapped together; `masks` remembers what callers may see in it."""

    catalog: Catalog
    index: Index
    masks: dict[Allow, Mask] = field(default_factory=dict[Allow, Mask])
    masks_by_id: dict[int, tuple[Allow, Mask]] = field(
        default_factory=dict[int, tuple[Allow, Mask]]
    )

    def mask(self, allow: Allow | None) -> Mask:
        """The slots that a rule allows; rules that can be told apart are worked out once."""
        if allow is None:
            return self.index.alive
        if not (callable(allow) or isinstance(allow, frozenset)):
            return allow_mask(self.index, allow)
        if (again := self.masks_by_id.get(id(allow))) is not None:
            return again[1]
        mask = self._look_up_mask(allow)
        if len(self.masks_by_id) >= _MASKS:
            self.masks_by_id.clear()
        self.masks_by_id[id(allow)] = allow, mask  # the rule is kept, so that its id stays its own
        return mask

    def _look_up_mask(self, allow: Allow) -> Mask:
        """The same, for a rule that is not the very one met before: telling takes its while."""
        try:
            known = self.masks.get(allow)
        except TypeError:  # it has no hash
            return allow_mask(self.index, allow)
        if known is None:
            known = allow_mask(self.index, allow)
            if len(self.masks) >= _MASKS:
                self.masks.clear()
            self.masks[allow] = known
        return known


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """How far the index is: tools, vectors by embedder, and what went wrong, if anything."""

    tools: int
    vectors: dict[str, int]
    is_filling: bool
    problem: str


class Engine:
    """Finds tools; safe to search from many threads while the catalog changes.

    Words are ready at once. Vectors come from the cache or are made in the background; until they
    are there, search goes by words and says so. `fill()` waits for them. An embedder that fails is
    tried again by the first search after `retry_seconds`. Without one, search goes by words alone.
    `rankers`, `fusion`, `read` (what of a tool is encoded) and `prepare` (what is made of a request
    before) may be your own; `mends` says whether slips of the pen are; `cut` is the confidence from
    which on a search counts as answered.
    """

    def __init__(
        self,
        catalog: Catalog | None = None,
        *,
        embedders: Sequence[Embedder] = (),
        cache: VectorCache | None = None,
        rankers: Sequence[Ranker] | None = None,
        fusion: Fusion = zscore,
        read: TextRecipe = embedding_texts,
        prepare: QueryPreprocessor = prepare_query,
        mends: bool = True,
        cut: float = 0.0,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self.embedders = tuple(embedders)
        self.cut = cut
        arms = tuple(rankers or _default_rankers(self.embedders))
        spellings = SpellingIndex(is_word=_find_word_checker(self.embedders))
        self._method = Pipeline(arms, fusion, spellings, prepare, corrects_typos=mends)
        self._translating = {arm.embedder.id for arm in arms if isinstance(arm, CrossLingual)}
        self._writing = Lock()
        self._now = Snapshot(Catalog(), Index())
        self._filler = EmbeddingWorker(
            self, self.embedders, cache, read=read, retry_seconds=retry_seconds
        )
        if catalog is not None:
            self.update(catalog)

    @property
    def catalog(self) -> Catalog:
        """The snapshot that searches see now."""
        return self._now.catalog

    @property
    def status(self) -> IndexStatus:
        """How far the index is."""
        now = self._now.index
        counts = {e.id: now.vector_count(e.id) for e in self.embedders}
        is_filling = self._filler.is_running and any(c < len(now) for c in counts.values())
        return IndexStatus(len(now), counts, is_filling, self._filler.problem)

    def update(self, catalog: Catalog) -> None:
        """Take over a newer snapshot; only what changed is indexed."""
        with self._writing:
            now = self._now
            change = catalog.diff(now.catalog)
            gone = (*change.removed, *(t.name for t in change.changed))
            try:
                index = now.index.without_tools(gone).with_tools((*change.added, *change.changed))
            except Exception:  # whatever it has left half done is left behind
                self._now = Snapshot(now.catalog, now.index.compact())
                raise
            self._now = Snapshot(catalog, index.compact() if index.needs_compaction else index)
        self._filler.start()

    def fill(self, progress: ProgressCallback | None = None) -> IndexStatus:
        """Wait until every tool has its vectors, or until an embedder fails."""
        self._filler.fill_now(progress)
        return self.status

    def close(self) -> None:
        """Stop making vectors and let go of the cache."""
        self._filler.close()

    def search(
        self,
        query: str | Sequence[str],
        *,
        limit: int = 5,
        allow: Allow | None = None,
        mode: Mode = "auto",
    ) -> Results:
        """The best tools for a query, or for several at once."""
        started = perf_counter()
        now = self._now
        mask = now.mask(allow)
        limit = max(0, limit)
        queries = parse_all(query, mode=mode)
        each = [run_query(self._method, now.index, q, mask, limit=limit) for q in queries]
        found = merge_results(each, limit=limit)
        return Results(
            query=query if isinstance(query, str) else " · ".join(query),
            hits=found.hits,
            confidence=found.confidence,
            answered=found.confidence >= self.cut,
            near=found.near,
            notes=tuple(dict.fromkeys((*found.notes, *self._vector_notes(now.index, mask)))),
            took_ms=round((perf_counter() - started) * 1e6) / 1e3,
            evidence=found.evidence,
            is_selection=found.is_selection,
        )

    def tools_without_vectors(self, embedder: Embedder) -> list[Tool]:
        """The tools that an embedder has made no vector for."""
        now = self._now.index
        return [now.tool(slot) for slot in now.slots_without_vectors(embedder.id)]

    def add_vectors(self, embedder: Embedder, tools: Sequence[Tool], vectors: Floats) -> None:
        """Put vectors where their tools are now; a tool that has changed since is passed over."""
        with self._writing:
            now = self._now
            found = [(i, slot) for i, t in enumerate(tools) if (slot := now.index.slot_of(t)) >= 0]
            if found:
                rows, slots = zip(*found, strict=True)
                places = np.array(slots, np.int32)
                if len(rows) < len(vectors):
                    vectors = vectors[list(rows)]
                index = now.index.with_vectors(embedder.id, places, vectors)
                self._now = replace(now, index=index)

    def words_to_embed(self, embedder: Embedder) -> Mapping[str, str]:
        """The terms whose words an embedder is to learn, each with its word."""
        now = self._now
        known = now.index.glossaries.get(embedder.id)
        size = len(now.index.lexicon.vocabulary)
        is_wanted = embedder.id in self._translating and size > 0
        if not is_wanted or (known is not None and not known.is_outgrown(size)):
            return {}
        return common_words(now.catalog)

    def word_vectors(self, embedder: Embedder) -> Mapping[str, Floats]:
        """The words that an embedder has learnt, with their vectors."""
        known = self._now.index.glossaries.get(embedder.id)
        return {} if known is None else dict(zip(known.words, known.vectors, strict=True))

    def add_word_vectors(
        self, embedder: Embedder, words: Mapping[str, str], vectors: Floats
    ) -> None:
        """Take over the vectors of words, each under its term."""
        glossary = Glossary.of(words, vectors, size=len(self._now.index.lexicon.vocabulary))
        with self._writing:
            index = self._now.index.with_glossary(embedder.id, glossary)
            self._now = replace(self._now, index=index)

    def _vector_notes(self, index: Index, mask: Mask) -> Sequence[str]:
        """What a reader should know of the vectors; it counts only what the caller may see."""
        if not self.embedders:
            return ()
        self._filler.retry_if_due()
        if all(index.vector_count(e.id) == len(index) for e in self.embedders):
            return ()
        lacking = max(int((mask & ~index.vector_mask(e.id)).sum()) for e in self.embedders)
        if not lacking:
            return ()
        if problem := self._filler.problem:
            rest = "by words only" if not index.vectors else "without some vectors"
            return (f"Searched {rest}: {problem}",)
        return (f"Vectors are still being made for {lacking} of {int(mask.sum())} tools.",)


def _find_word_checker(embedders: Sequence[Embedder]) -> Callable[[str], bool]:
    """Who tells what is a word: the first embedder that can, else nobody."""
    judges = [e.is_word for e in embedders if has_vocabulary(e)]
    return judges[0] if judges else _is_never_word


def _is_never_word(_: str) -> bool:
    return False


def _default_rankers(embedders: Sequence[Embedder]) -> Iterator[Ranker]:
    """Names, words, the meaning by each embedder, and what words of other languages mean."""
    yield Exact()
    yield BM25F()
    yield from (Dense(embedder) for embedder in embedders)
    yield from (CrossLingual(embedder) for embedder in [*filter(is_cross_lingual, embedders)][:1])
