"""What the words of queries are to one snapshot: which tools have them, and how much that says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import log
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .postings import Floats, Ints, Posting, Segment, Vocabulary

_COMMON = 16
"""A word that one tool in so many has is also laid out over all of them."""

_FEW = 64
_SIGHTS = 64

Mask = npt.NDArray[np.bool_]

Lost = Mapping[int, tuple[int, float, float]]
"""What dead slots had of each term: how many had it, the sum of its weights, and of the squares."""


class Term(NamedTuple):
    """A word as one snapshot knows it; words sort by how rare they are.

    So many living `tools` have it; `gains` is what it gives each of them, and `mean` and `variance`
    are those of its gain over the whole catalog. A common word has its gains `laid` out, a place
    for every slot.
    """

    tools: int
    text: str
    idf: float
    mean: float
    variance: float
    slots: Ints
    gains: Floats
    postings: tuple[Posting, ...]
    laid: Floats | None = None

    def is_seen(self, allowed: Mask) -> bool:
        """Whether a tool that has it is allowed; if it is common, the first few nearly tell."""
        return bool(allowed.take(self.slots[:_FEW]).any() or allowed.take(self.slots).any())

    def gain(self, slot: int) -> float:
        """What it gives the tool in a slot; nothing if that has it not."""
        if self.laid is not None:
            return float(self.laid[slot])
        place = int(self.slots.searchsorted(np.int32(slot)))
        is_there = place < len(self.slots) and int(self.slots[place]) == slot
        return float(self.gains[place]) if is_there else 0.0

    def quieter(self, share: float) -> Term:
        """The same word where it counts only for a share."""
        if share == 1:
            return self
        return self._replace(
            mean=share * self.mean,
            variance=share * share * self.variance,
            gains=np.float32(share) * self.gains,
            laid=None if self.laid is None else np.float32(share) * self.laid,
        )

    def at(self, slots: Ints) -> Floats:
        """What it gives each of some slots."""
        if self.laid is not None:
            return self.laid.take(slots)
        places = np.minimum(self.slots.searchsorted(slots), len(self.slots) - 1)
        return self.gains.take(places) * (self.slots.take(places) == slots)


@dataclass(frozen=True, slots=True)
class Sight:
    """What a caller sees of one snapshot: the `words` of the catalog, if a tool in sight has them.

    `slips` are words with the term and the word that each is read as. All are worked out once.
    """

    mask: Mask
    words: dict[str, Term | None] = field(default_factory=dict[str, Term | None])
    slips: dict[str, tuple[str, str] | None] = field(
        default_factory=dict[str, "tuple[str, str] | None"]
    )


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The words of one snapshot, looked up once each; the dead count as if they had never been.

    `size` counts slots and `count` the living; `lost` corrects the postings' statistics.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    segments: tuple[Segment, ...] = ()
    lost: Lost = field(default_factory=dict[int, tuple[int, float, float]])
    size: int = 0
    count: int = 0
    _seen: dict[str, Term | None] = field(default_factory=dict[str, Term | None])
    _sights: dict[int, Sight] = field(default_factory=dict[int, "Sight"])

    def terms(self, texts: Iterable[str]) -> list[Term]:
        """Those of some words that living tools have."""
        seen = self._seen
        found = [seen[text] if text in seen else self.get(text) for text in texts]
        return [term for term in found if term is not None]

    def seen(self, texts: Iterable[str], allowed: Mask) -> list[Term]:
        """Those of some words that an allowed tool has; each is asked for once for a mask."""
        known = self.sight(allowed).words
        found = [known[t] if t in known else self._see(t, known, allowed) for t in texts]
        return [term for term in found if term is not None]

    def sight(self, allowed: Mask) -> Sight:
        """What is remembered of a caller's view."""
        sight = self._sights.get(id(allowed))
        if sight is None:  # the mask is kept with its answers, so that its id stays its own
            if len(self._sights) >= _SIGHTS:
                self._sights.clear()
            sight = self._sights[id(allowed)] = Sight(allowed)
        return sight

    def get(self, text: str) -> Term | None:
        """A word, if a living tool has it."""
        try:
            return self._seen[text]
        except KeyError:
            number = self.vocabulary.get(text)
            if number is None or not self.count:  # words of strangers are not kept
                return None
            term = self._seen[text] = self._look_up(text, number)
            return term

    def _see(self, text: str, known: dict[str, Term | None], allowed: Mask) -> Term | None:
        term = self.get(text)
        if term is not None:
            term = known[text] = term if term.is_seen(allowed) else None
        return term

    def _look_up(self, text: str, number: int) -> Term | None:
        found = [segment.find(number) for segment in self.segments]
        postings = tuple([posting for posting in found if posting is not None])
        gone, less, fewer = self.lost.get(number, (0, 0.0, 0.0))
        count = sum([p.end - p.start for p in postings]) - gone
        if count <= 0:
            return None
        idf = log(1 + (self.count - count + 0.5) / (count + 0.5))
        mean = (sum([p.total for p in postings]) - less) / self.count
        square = (sum([p.squares for p in postings]) - fewer) / self.count
        slots, weights = postings[0].slots, postings[0].weights
        if len(postings) > 1:
            slots = np.concatenate([p.slots for p in postings])
            weights = np.concatenate([p.weights for p in postings])
        gains = weights * np.float32(idf)
        laid = None
        if count * _COMMON >= self.count:
            laid = np.zeros(self.size, np.float32)
            laid[slots] = gains
        variance = idf * idf * max(0.0, square - mean * mean)
        return Term(count, text, idf, idf * mean, variance, slots, gains, postings, laid)
