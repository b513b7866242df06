"""The seams at which features join a toolbox; none of them knows the toolbox or another feature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from ..catalog.problem import Problem
from ..catalog.result import Result
from ..catalog.tool import Tool

RULES = "rules"
MEMORY = "memory"
INTRODUCTIONS = "introductions"


class RulesFeature(Protocol):
    """Has rules of use for tools, to be given once a conversation."""

    def deliver(self, section: str | None, tools: Sequence[Tool]) -> tuple[str, str]:
        """The rules still owed for some tools, and the section that remembers giving them."""
        ...


class MemoryFeature(Protocol):
    """Takes out of results what is worth remembering, into a section of the session."""

    def observe(self, section: str | None, tool: Tool, result: Result, *, now: float) -> str:
        """The section after one more result."""
        ...

    def render(self, section: str | None, *, discovered: Sequence[str] = ()) -> str:
        """What is remembered, with the tools that are loaded, as text for the model."""
        ...


class OffloadFeature(Protocol):
    """Keeps large results aside and gives back what fits."""

    async def keep(self, session: str, tool: Tool, result: Result) -> Result:
        """The result itself, or a preview that says how to read on."""
        ...


@runtime_checkable
class TurnBudgetFeature(Protocol):
    """Sees to it that all results of one turn fit together."""

    async def keep_turn(
        self, session: str, results: Sequence[tuple[Tool, Result]]
    ) -> Sequence[Result]:
        """The results in their order, with the largest kept aside where they are too much."""
        ...


@runtime_checkable
class ToolFeature(Protocol):
    """Has tools of its own: always in view, never filtered, told which conversation asks."""

    def tools(self) -> Sequence[Tool]:
        """The tools it adds."""
        ...

    async def call(self, session: str, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Run one of them for a conversation."""
        ...


@runtime_checkable
class InstructionsFeature(Protocol):
    """Has something to say to every model from the start."""

    def introduction(self) -> str:
        """What the instructions say of it; empty if there is nothing."""
        ...


@runtime_checkable
class AliasFeature(Protocol):
    """Answers to further names that no model is told of."""

    def alias_tools(self) -> Sequence[Tool]:
        """The tools behind them."""
        ...


@runtime_checkable
class CatalogListener(Protocol):
    """Wants to know which tools there are, and says what of its own does not fit them."""

    def update_tools(self, tools: Iterable[Tool]) -> Sequence[Problem]:
        """Learn of the tools; the problems are for whoever runs the toolbox."""
        ...


@runtime_checkable
class TurnListener(Protocol):
    """Wants to know when a turn of the conversation is over."""

    def finish(self, section: str | None) -> str:
        """The section after the turn."""
        ...


@runtime_checkable
class SessionScopedFeature(Protocol):
    """Keeps something of a conversation that must go when the conversation does."""

    async def forget(self, session: str) -> int:
        """Remove it, and say how much that was."""
        ...


@dataclass(frozen=True)
class Features:
    """What goes along with the calls of a toolbox; each may be missing."""

    rules: RulesFeature | None = None
    memory: MemoryFeature | None = None
    offload: OffloadFeature | None = None
    others: tuple[ToolFeature, ...] = ()

    @property
    def by_name(self) -> Mapping[str, object]:
        """The features that have a place of their own, by its name."""
        places = {"rules": self.rules, "memory": self.memory, "offload": self.offload}
        return {name: feature for name, feature in places.items() if feature is not None}

    @property
    def by_report_name(self) -> Mapping[str, object]:
        """Every feature by the name it reports under: its place, else its kind."""
        placed = dict(self.by_name)
        for feature in self.others:
            if all(feature is not known for known in placed.values()):
                kind = type(feature).__name__.lower()
                same = sum(name.split(" ")[0] == kind for name in placed)
                placed[f"{kind} {same + 1}" if same else kind] = feature
        return placed

    @property
    def all(self) -> tuple[object, ...]:
        """Every feature there is."""
        return (*self.by_name.values(), *self.others)

    async def forget(self, session: str) -> None:
        """Let every feature drop what it keeps of a conversation that is over."""
        for feature in self.all:
            if isinstance(feature, SessionScopedFeature):
                await feature.forget(session)

    @property
    def introduction(self) -> str:
        """What features say to every model from the start."""
        told = (f.introduction() for f in self.all if isinstance(f, InstructionsFeature))
        return "\n\n".join(text for text in told if text)

    @cached_property
    def visible_tools(self) -> Mapping[str, tuple[ToolFeature, Tool]]:
        """The tools that features add to what a model sees, and who answers them."""
        return {t.name: (f, t) for f in self.all if isinstance(f, ToolFeature) for t in f.tools()}

    @cached_property
    def callable_tools(self) -> Mapping[str, tuple[ToolFeature, Tool]]:
        """Those and the ones that are answered although no model is told of them."""
        hidden = {
            t.name: (f, t)
            for f in self.all
            if isinstance(f, ToolFeature) and isinstance(f, AliasFeature)
            for t in f.alias_tools()
        }
        return {**hidden, **self.visible_tools}
