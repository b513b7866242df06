"""What a search gives back: hits that say why, and how sure the whole is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class Hit:
    """One tool that fits; `score` orders hits of one search and means nothing across searches."""

    tool: Tool
    score: float
    reasons: Callable[[], tuple[Reason, ...]] = field(default=tuple[Reason, ...], compare=False)

    @property
    def why(self) -> tuple[Reason, ...]:
        """What spoke for it, worked out when asked."""
        return self.reasons()

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name


@dataclass(frozen=True, slots=True)
class Results:
    """The answer to one search.

    `confidence` in [0, 1] is the chance that the right tool is among the hits; `near` has the
    next names after them; `notes` says what a reader should know (a repaired typo, vectors that
    are not there yet).
    """

    query: str
    hits: tuple[Hit, ...] = ()
    confidence: float = 0.0
    answered: bool = True
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    took_ms: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the hits, best first."""
        return tuple(h.name for h in self.hits)
