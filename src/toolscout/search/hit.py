"""Search results: hits with their reasons, and the confidence in the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ..catalog.tool import Tool
from ..embedders.arrays import Floats

MAX_NEAR = 8
"""The most names that are listed after the hits."""

Verdict = Literal["likely", "unsure", "nothing fits"]
"""Whether the hits of a search are likely, likely wrong, or left out because nothing fits."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a tool was found: by which ranker, in which field, by which words.

    `score` is what the ranker adds to the score of the hit.
    """

    arm: str
    field: str = ""
    words: tuple[str, ...] = ()
    score: float = 0.0

    def __str__(self) -> str:
        where = f" in {self.field}" if self.field else ""
        what = f" ({', '.join(self.words)})" if self.words else ""
        return f"{self.arm}{where}{what}"


# Not frozen: a frozen dataclass takes longer to create, and a search creates more of these than of
# anything else.
@dataclass(slots=True, unsafe_hash=True)
class Hit:
    """A tool that was found; `score` orders the hits of one search and means nothing beyond it."""

    tool: Tool
    score: float
    # A function, because most callers never look at the reasons.
    reasons: Callable[[], tuple[Reason, ...]] = field(
        default=tuple[Reason, ...], compare=False, repr=False
    )

    @property
    def why(self) -> tuple[Reason, ...]:
        """Why the tool was found, computed on access."""
        return self.reasons()

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name


class Evidence(NamedTuple):
    """The facts about the best hit from which the confidence is computed.

    - `similarity`: cosine with the closest view of the request; None without vectors
    - `lead`: how far that is above the mean of the catalog, which is lower in other languages
    - `meaning`: the same in standard deviations
    - `matched`, `missing`: how many words of the request the tool has and lacks, weighted by idf
    - `named`: the share of the words in its name (without the server) that the request contains
    - `is_readable`: whether an embedder knows the language; if not, its vectors say little
    """

    similarity: float | None = None
    lead: float = 0.0
    meaning: float = 0.0
    matched: float = 0.0
    missing: float = 0.0
    named: float = 0.0
    is_readable: bool = True

    @property
    def has_meaning(self) -> bool:
        """Whether the similarity says that the request and the tool mean the same."""
        return self.similarity is not None and self.is_readable


class QueryVector(NamedTuple):
    """A whole query as a unit vector, and the id of the embedder that made it."""

    embedder: str
    values: Floats


class QueryHits(NamedTuple):
    """The results of one query, and whether an embedder knows its language."""

    hits: tuple[Hit, ...] = ()
    confidence: float = 0.0
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    evidence: Evidence | None = None
    is_selection: bool = False
    vectors: tuple[QueryVector, ...] = ()
    is_readable: bool = True


@dataclass(frozen=True, slots=True)
class Results:
    """The results of one search.

    `confidence` in [0, 1] is the estimated probability that the right tool is among the hits.
    `near` lists the names that come after the hits. `notes` are for the reader, for example about a
    corrected typo or vectors that are not ready. `evidence` is the basis of the confidence. If a
    query selects tools by name, `is_selection` is true and `hits` has all of them, whatever the
    limit. `vectors` are what the queries were encoded as, by the first embedder that was used.
    `verdict` is None in what an `Engine` returns, which does not judge its hits.
    """

    query: str
    hits: tuple[Hit, ...] = ()
    confidence: float = 0.0
    is_answered: bool = True
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    took_ms: float = 0.0
    evidence: Evidence | None = None
    is_selection: bool = False
    vectors: tuple[QueryVector, ...] = field(default=(), compare=False, repr=False)
    verdict: Verdict | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the hits, best first."""
        return tuple(h.name for h in self.hits)
