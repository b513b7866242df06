"""The index of a catalog: immutable snapshots that share what only grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..catalog.tool import Tool, normalise_name, qualify_name
from ..embedders.arrays import Floats, Ints, Mask
from ..embedders.embedder import dimension_error
from .fields import weigh_terms
from .glossary import Glossary
from .lexicon import Lexicon, RemovedTermStats, Term, Vocabulary
from .postings import Segment, build_segment, compact_segments, merge_small_segments
from .vectors import Vectors

# Removed tools keep their slots until a third as many of them as of live ones has piled up; small
# catalogs do not compact below this number.
_MAX_DEAD_SLOTS = 256
# Tools are weighed in chunks: large enough for NumPy to be fast, small enough for little memory.
_CHUNK = 2_000


@dataclass(frozen=True, slots=True)
class SharedTables:
    """Tables that only grow, shared by all snapshots.

    Readers need no lock: they only use slots that are alive in their own snapshot, so they never
    see what a writer appends later.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    tools: list[Tool] = field(default_factory=list[Tool])
    names: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    spellings: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    aliases: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    servers: dict[str, int] = field(default_factory=dict[str, int])
    categories: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Index:
    """A snapshot of the index: live slots, terms, vectors. A slot is the number of a tool."""

    shared: SharedTables = field(default_factory=SharedTables)
    lexicon: Lexicon = field(default_factory=Lexicon)
    alive: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    server: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    category: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    vectors: Mapping[str, Vectors] = field(default_factory=dict[str, Vectors])
    glossaries: Mapping[str, Glossary] = field(default_factory=dict[str, Glossary])

    def __len__(self) -> int:
        return self.lexicon.count

    @property
    def size(self) -> int:
        """The number of slots, dead ones included."""
        return len(self.alive)

    @property
    def needs_compaction(self) -> bool:
        """Whether so many slots are dead that compacting is worth its cost."""
        return self.size - len(self) > max(_MAX_DEAD_SLOTS, len(self) // 3)

    def tool(self, slot: int) -> Tool:
        """The tool in a slot."""
        return self.shared.tools[slot]

    def slot(self, name: str) -> int | None:
        """The slot of the tool of exactly this name."""
        return next(iter(self._alive_slots(self.shared.names.get(name, ()))), None)

    def slot_of(self, tool: Tool) -> int:
        """The slot of this tool object, or -1 if it was removed or replaced."""
        slot = self.slot(tool.name)
        return slot if slot is not None and self.tool(slot) is tool else -1

    def slots_by_name(self, spelling: str) -> list[int]:
        """The live slots of a name in any case style, with or without its server."""
        return self._alive_slots(self.shared.spellings.get(normalise_name(spelling), ()))

    def slots_by_alias(self, alias: str) -> list[int]:
        """The live slots of an alias, which an overlay added, in any case style."""
        return self._alive_slots(self.shared.aliases.get(normalise_name(alias), ()))

    def look_up_terms(self, texts: Iterable[str], allowed: Mask) -> list[Term | None]:
        """Look up terms; None for each that no allowed tool has."""
        # The engine passes `alive` itself for callers without restrictions.
        return self.lexicon.look_up(texts, None if allowed is self.alive else allowed)

    def find_terms(self, texts: Iterable[str], allowed: Mask) -> list[Term]:
        """Look up terms; those that no allowed tool has are left out."""
        return [term for term in self.look_up_terms(texts, allowed) if term is not None]

    def with_tools(self, tools: Sequence[Tool]) -> Index:
        """Index more tools; the cost depends on their number, not on the size of the catalog."""
        if not tools:
            return self
        start, end = self.size, self.size + len(tools)
        segments = list(self.lexicon.segments)
        del self.shared.tools[start:]  # an update that failed may have left some
        for first in range(0, len(tools), _CHUNK):
            chunk = tools[first : first + _CHUNK]
            for tool in chunk:
                self._assign_slot(tool)
            weighed = weigh_terms(chunk, self.shared.vocabulary)
            segments.append(build_segment(start + first, len(chunk), weighed))
            segments = list(merge_small_segments(segments))
        servers = _assign_numbers(self.shared.servers, (t.server for t in tools))
        categories = _assign_numbers(self.shared.categories, (t.category for t in tools))
        alive = np.concatenate([self.alive, np.ones(len(tools), np.bool_)])
        return replace(
            self,
            lexicon=self._make_lexicon(
                tuple(segments), self.lexicon.removed, end, len(self) + len(tools)
            ),
            alive=alive,
            server=np.concatenate([self.server, servers]),
            category=np.concatenate([self.category, categories]),
            vectors={name: v.resize(end) for name, v in self.vectors.items()},
        )

    def without_tools(self, names: Iterable[str]) -> Index:
        """Remove tools; their postings stay, out of reach, until the index is compacted."""
        gone = [slot for n in dict.fromkeys(names) if (slot := self.slot(n)) is not None]
        if not gone:
            return self
        self.shared.vocabulary.has_removals = True
        removed, alive = dict(self.lexicon.removed), self.alive.copy()
        for slot in gone:
            alive[slot] = False
            # A tool's weights depend on the tool alone, so weighing it again gives exactly what the
            # segments' sums contain.
            _, terms, weights, _ = weigh_terms([self.tool(slot)], self.shared.vocabulary)
            for number, weight in zip(terms.tolist(), weights.tolist(), strict=True):
                count, total, squares = removed.get(number, (0, 0.0, 0.0))
                removed[number] = (count + 1, total + weight, squares + weight * weight)
        dead = np.array(gone, np.int32)
        vectors = {name: v.drop(dead) for name, v in self.vectors.items()}
        return replace(
            self,
            lexicon=self._make_lexicon(
                self.lexicon.segments, removed, self.size, len(self) - len(gone)
            ),
            alive=alive,
            vectors=vectors,
        )

    def with_vectors(self, name: str, slots: Ints, vectors: Floats) -> Index:
        """Add vectors of one embedder."""
        width = vectors.shape[1]
        known = self.vectors.get(name) or Vectors.empty(width).resize(self.size)
        if known.dimensions != width:
            raise dimension_error(name, width, known.dimensions)
        return replace(self, vectors={**self.vectors, name: known.put(slots, vectors)})

    def with_fitted_vectors(self, name: str, *, added: int) -> Index:
        """Adapt to the last `added` vectors of one embedder."""
        known = self.vectors.get(name)
        if known is None:
            return self
        return replace(self, vectors={**self.vectors, name: known.fit(added=added)})

    def with_glossary(self, name: str, glossary: Glossary) -> Index:
        """Set the glossary of one embedder."""
        return replace(self, glossaries={**self.glossaries, name: glossary})

    def vector_count(self, name: str) -> int:
        """The number of tools with a vector from one embedder."""
        known = self.vectors.get(name)
        return 0 if known is None else known.count

    def vector_mask(self, name: str) -> Mask:
        """The slots with a vector from one embedder."""
        known = self.vectors.get(name)
        return np.zeros(self.size, np.bool_) if known is None else known.present

    def slots_without_vectors(self, name: str) -> list[int]:
        """The live slots without a vector from one embedder."""
        return np.flatnonzero(self.alive & ~self.vector_mask(name)).tolist()

    def compact(self) -> Index:
        """Renumber the live tools without gaps; nothing is analysed or weighed again."""
        living = np.flatnonzero(self.alive).astype(np.int32)
        old = self.shared
        segments = (compact_segments(self.lexicon.segments, self.alive),) if len(living) else ()
        after = Index(
            # New tables for whatever refers to slots; older snapshots keep using the old ones.
            shared=replace(old, tools=[], names={}, spellings={}, aliases={}),
            lexicon=self._make_lexicon(segments, {}, len(living), len(living)),
            alive=np.ones(len(living), np.bool_),
            server=self.server[living],
            category=self.category[living],
            vectors={name: v.compact(living) for name, v in self.vectors.items()},
            glossaries=self.glossaries,
        )
        for slot in living.tolist():
            after._assign_slot(old.tools[slot])
        return after

    def _alive_slots(self, slots: tuple[int, ...]) -> list[int]:
        return [s for s in slots if s < self.size and self.alive[s]]

    def _make_lexicon(
        self, segments: tuple[Segment, ...], removed: RemovedTermStats, size: int, count: int
    ) -> Lexicon:
        return Lexicon(self.shared.vocabulary, segments, removed, size=size, count=count)

    def _assign_slot(self, tool: Tool) -> None:
        """Give a tool the next slot, and register all its names."""
        shared = self.shared
        slot = len(shared.tools)
        shared.tools.append(tool)
        # Tuples are replaced, never changed: a reader in another thread sees the old or the new
        # one.
        shared.names[tool.name] = (*shared.names.get(tool.name, ()), slot)
        for spelling in {normalise_name(n) for n in _tool_names(tool)}:
            shared.spellings[spelling] = (*shared.spellings.get(spelling, ()), slot)
        for alias in {normalise_name(a) for a in tool.aliases}:
            shared.aliases[alias] = (*shared.aliases.get(alias, ()), slot)


def _tool_names(tool: Tool) -> tuple[str, str, str]:
    """The names of a tool: as given, without its server, and with it."""
    return tool.name, tool.local_name, qualify_name(tool.server, tool.local_name)


def _assign_numbers(known: dict[str, int], names: Iterable[str]) -> Ints:
    return np.array([known.setdefault(name, len(known)) for name in names], np.int32)
