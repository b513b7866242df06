"""What a search gives back: hits that say why, and how sure the whole is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..catalog.tool import Tool


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a tool was found: which arm, in which field, by which words, how much it gave."""

    arm: str
    field: str = ""
    words: tuple[str, ...] = ()
    score: float = 0.0

    def __str__(self) -> str:
        where = f" in {self.field}" if self.field else ""
        what = f" ({', '.join(self.words)})" if self.words else ""
        return f"{self.arm}{where}{what}"


@dataclass(slots=True, unsafe_hash=True)  # not frozen: of these a search makes the most
class Hit:
    """One tool that fits; `score` orders hits of one search and means nothing across searches."""

    tool: Tool
    score: float
    reasons: Callable[[], tuple[Reason, ...]] = field(
        default=tuple[Reason, ...], compare=False, repr=False
    )

    @property
    def why(self) -> tuple[Reason, ...]:
        """What spoke for it, worked out when asked."""
        return self.reasons()

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name


class Evidence(NamedTuple):
    """What confidence is judged by, all of it about the best hit.

    `similarity` is the cosine of its vector with the closest view of the request (none without
    vectors), `meaning` and `words` are what the two arms gave it in standard deviations, `coverage`
    is the share of the request's words that the catalog knows, `share` the share that the tool has,
    `named` the share of the words of its name, without its server, that the request says, and
    `tools` how many the whole catalog has: among few, the same standard deviations mean more.
    """

    similarity: float | None = None
    meaning: float = 0.0
    words: float = 0.0
    coverage: float = 0.0
    share: float = 0.0
    named: float = 0.0
    tools: int = 1


@dataclass(frozen=True, slots=True)
class Results:
    """The answer to one search.

    `confidence` in [0, 1] is the chance that the right tool is among the hits; `near` has the
    next names after them; `notes` says what a reader should know (a repaired typo, vectors that
    are not there yet); `evidence` is what the confidence was judged by. Hits that were selected by
    name are all there, whatever the limit: then `is_selection` is true.
    """

    query: str
    hits: tuple[Hit, ...] = ()
    confidence: float = 0.0
    answered: bool = True
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    took_ms: float = 0.0
    evidence: Evidence | None = None
    is_selection: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the hits, best first."""
        return tuple(h.name for h in self.hits)
