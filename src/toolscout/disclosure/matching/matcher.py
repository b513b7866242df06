"""What a matcher is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ...catalog.tool import Tool
from ...search.engine import Allow, Engine
from ..scope import Scope


@dataclass(frozen=True, slots=True)
class Domain:
    """What a search may find: the allowed tools, or only those that wait; and the engine."""

    scope: Scope
    engine: Engine
    only_waiting: bool = False

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools in catalog order."""
        return self.scope.pool if self.only_waiting else self.scope.tools

    @property
    def allow(self) -> Allow | None:
        """The rule that the engine must keep."""
        return frozenset(t.name for t in self.tools) if self.only_waiting else self.scope.allow

    @property
    def loaded(self) -> frozenset[str]:
        """What this conversation has loaded."""
        return self.scope.loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """The tools that fit one query, best first.

    `scores` go with `tools` and mean something only within one answer; `missing` are names that
    were asked for and do not exist; `is_fuzzy` says that a looser way had to be taken, `is_named`
    that all of them were asked for by their names.
    """

    tools: tuple[Tool, ...] = ()
    scores: tuple[float, ...] = ()
    missing: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    confidence: float = 1.0
    is_fuzzy: bool = False
    is_named: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools, best first."""
        return tuple(t.name for t in self.tools)


class Matcher(Protocol):
    """Finds the tools that a query means."""

    def match(self, query: str, domain: Domain, *, limit: int | None) -> Matches:
        """The best tools for the query, at most `limit`; raises QueryError for a bad pattern."""
        ...


def ranked(scored: list[tuple[float, Tool]], *, limit: int | None) -> Matches:
    """Order by score, ties as they came, and cut."""
    best = sorted(scored, key=lambda pair: -pair[0])[:limit]
    return Matches(tools=tuple(t for _, t in best), scores=tuple(s for s, _ in best))
