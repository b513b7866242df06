"""The index: what search knows of a catalog, as snapshots that share nearly everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ..catalog.names import normalised
from ..catalog.tool import Tool
from .fields import weigh
from .postings import Segment, Vocabulary, build, settle
from .vectors import Vectors

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]

_SLACK = 256


@dataclass(frozen=True, slots=True)
class Shared:
    """What only grows, and so can serve every snapshot at once.

    A reader looks at slots that its own snapshot says are alive, so what a writer appends later is
    never seen too early.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    tools: list[Tool] = field(default_factory=list[Tool])
    spellings: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    servers: dict[str, int] = field(default_factory=dict[str, int])
    categories: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Index:
    """A snapshot: which slots live, their postings, their vectors.

    `lost` corrects the postings' statistics for slots that have gone: per term the number of
    documents, the sum of their weights and of the squares.
    """

    shared: Shared = field(default_factory=Shared)
    slots: Mapping[str, int] = field(default_factory=dict[str, int])
    alive: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    server: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    category: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    segments: tuple[Segment, ...] = ()
    lost: Mapping[int, tuple[int, float, float]] = field(
        default_factory=dict[int, tuple[int, float, float]]
    )
    vectors: Mapping[str, Vectors] = field(default_factory=dict[str, Vectors])

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def size(self) -> int:
        """How many slots there are, the dead included."""
        return len(self.alive)

    @property
    def is_worn(self) -> bool:
        """Whether so many slots are dead that building anew pays."""
        return self.size - len(self) > max(_SLACK, len(self) // 3)

    def tool(self, slot: int) -> Tool:
        """The tool in a slot."""
        return self.shared.tools[slot]

    def named(self, spelling: str) -> list[int]:
        """The living slots whose name is spelled so, in any case style, with or without server."""
        found = self.shared.spellings.get(normalised(spelling), ())
        return [s for s in found if s < self.size and self.alive[s]]

    def with_tools(self, tools: Sequence[Tool]) -> Index:
        """Index more tools; the cost follows their number, not the catalog's."""
        if not tools:
            return self
        shared, start = self.shared, self.size
        slots = dict(self.slots)
        documents: list[dict[int, tuple[float, int]]] = []
        add = shared.vocabulary.add
        for slot, tool in enumerate(tools, start):
            shared.tools.append(tool)
            slots[tool.name] = slot
            for spelling in {normalised(tool.name), normalised(tool.local_name)}:
                shared.spellings.setdefault(spelling, []).append(slot)
            documents.append({add(term): entry for term, entry in weigh(tool).items()})
        servers = _numbers(shared.servers, (t.server for t in tools))
        categories = _numbers(shared.categories, (t.category for t in tools))
        end = start + len(tools)
        return replace(
            self,
            slots=slots,
            alive=np.concatenate([self.alive, np.ones(len(tools), np.bool_)]),
            server=np.concatenate([self.server, servers]),
            category=np.concatenate([self.category, categories]),
            segments=settle((*self.segments, build(start, documents))),
            vectors={name: v.sized(end) for name, v in self.vectors.items()},
        )

    def without(self, names: Iterable[str]) -> Index:
        """Take tools out; their postings stay until the index is built anew, unseen."""
        gone = [self.slots[n] for n in names if n in self.slots]
        if not gone:
            return self
        slots, lost, alive = dict(self.slots), dict(self.lost), self.alive.copy()
        for slot in gone:
            tool = self.shared.tools[slot]
            del slots[tool.name]
            alive[slot] = False
            for term, (weight, _) in weigh(tool).items():
                number = self.shared.vocabulary.add(term)
                count, total, squares = lost.get(number, (0, 0.0, 0.0))
                lost[number] = (count + 1, total + weight, squares + weight * weight)
        dead = np.array(gone, np.int32)
        vectors = {name: v.drop(dead) for name, v in self.vectors.items()}
        return replace(self, slots=slots, lost=lost, alive=alive, vectors=vectors)

    def with_vectors(self, name: str, slots: Ints, vectors: npt.NDArray[np.float32]) -> Index:
        """Fill in vectors of one embedder."""
        known = self.vectors.get(name) or Vectors.empty(vectors.shape[1]).sized(self.size)
        return replace(self, vectors={**self.vectors, name: known.put(slots, vectors)})

    def embedded(self, name: str) -> int:
        """How many tools one embedder has vectors for."""
        known = self.vectors.get(name)
        return 0 if known is None else known.count

    def missing(self, name: str) -> list[int]:
        """The living slots that one embedder has no vector for yet."""
        known = self.vectors.get(name)
        if known is None:
            return np.flatnonzero(self.alive).tolist()
        return np.flatnonzero(self.alive & ~known.present).tolist()

    def rebuilt(self) -> Index:
        """The same tools in fresh slots, vectors kept."""
        living = np.flatnonzero(self.alive).astype(np.int32)
        after = Index().with_tools([self.shared.tools[s] for s in living.tolist()])
        for name, old in self.vectors.items():
            places = np.flatnonzero(old.present[living]).astype(np.int32)
            if len(places):
                rows = old.rows[living[places]].astype(np.float32)
                after = after.with_vectors(name, places, rows)
        return after


def _numbers(known: dict[str, int], names: Iterable[str]) -> Ints:
    return np.array([known.setdefault(name, len(known)) for name in names], np.int32)
