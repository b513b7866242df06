"""Protocols that rules, memory, offloading and tool features implement to join a toolbox.

A feature knows neither the toolbox nor other features. What it stores for a conversation is one
section of text in the session; the toolbox passes it in and saves what comes back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from ..catalog.catalog import Catalog
from ..catalog.problem import Problem
from ..catalog.result import Result
from ..catalog.tool import Tool
from ..disclosure.profile import Profile

# Names of the sections in a stored session. They are on users' disks, so they never change.
RULES = "rules"
MEMORY = "memory"
INTRODUCTIONS = "introductions"


class RulesFeature(Protocol):
    """Has rules for using tools, delivered once per conversation."""

    def deliver(self, section: str | None, tools: Sequence[Tool]) -> tuple[str, str]:
        """The rules for these tools not delivered yet, and the section that records delivery."""
        ...


class MemoryFeature(Protocol):
    """Extracts facts from results into a section of the session."""

    def observe(self, section: str | None, tool: Tool, result: Result, *, now: float) -> str:
        """The section after one more result."""
        ...

    def render(self, section: str | None, *, discovered: Sequence[str] = ()) -> str:
        """The memory as text for the model, together with the loaded tools."""
        ...


class OffloadFeature(Protocol):
    """Stores large results outside the context and returns a preview."""

    async def keep(self, session: str, tool: Tool, result: Result) -> Result:
        """The result itself, or a preview that says how to read the rest."""
        ...


@runtime_checkable
class TurnBudgetFeature(Protocol):
    """Limits the total size of the results of one turn."""

    async def keep_turn(
        self, session: str, results: Sequence[tuple[Tool, Result]]
    ) -> Sequence[Result]:
        """The results in the same order; the largest are replaced by previews if needed."""
        ...


@runtime_checkable
class ToolFeature(Protocol):
    """Adds its own tools, which are always in view and never filtered.

    Health reports it under its attribute `health_key` if it has one, else under its class name.
    """

    def tools(self) -> Sequence[Tool]:
        """The tools it adds."""
        ...

    async def call(self, session: str, tool: Tool, arguments: Mapping[str, Any]) -> Result:
        """Run one of its tools for a conversation."""
        ...


@runtime_checkable
class InstructionsFeature(Protocol):
    """Adds text to the instructions of every conversation."""

    def introduction(self) -> str:
        """The text for the instructions; empty for none."""
        ...


@runtime_checkable
class AliasFeature(Protocol):
    """Answers calls under further names that models are not shown."""

    def alias_tools(self) -> Sequence[Tool]:
        """The tools under those names."""
        ...


@runtime_checkable
class CatalogListener(Protocol):
    """Is notified of the catalog, and reports parts of its own that do not match it."""

    def update_tools(self, tools: Iterable[Tool]) -> Sequence[Problem]:
        """Take over the tools; the problems appear in the health of the toolbox."""
        ...


@runtime_checkable
class TurnListener(Protocol):
    """Is notified at the end of a turn."""

    def finish(self, section: str | None) -> str:
        """The section after the turn."""
        ...


@runtime_checkable
class SessionScopedFeature(Protocol):
    """Stores data of a conversation that must be deleted with it."""

    async def forget(self, session: str) -> int:
        """Delete it, and return how many things were deleted."""
        ...


@dataclass(frozen=True)
class Features:
    """The features of a toolbox; each may be missing."""

    rules: RulesFeature | None = None
    memory: MemoryFeature | None = None
    offload: OffloadFeature | None = None
    others: tuple[ToolFeature, ...] = ()

    @property
    def by_name(self) -> Mapping[str, object]:
        """The features with a role of their own, by the name of the role."""
        roles = {"rules": self.rules, "memory": self.memory, "offload": self.offload}
        return {name: feature for name, feature in roles.items() if feature is not None}

    @property
    def by_report_name(self) -> Mapping[str, object]:
        """Every feature by its name in health reports: its role, else its `health_key`."""
        named = dict(self.by_name)
        for feature in self.others:
            # A ResultStore is often passed both as `offload` and for its tools: report it once.
            if all(feature is not known for known in named.values()):
                key = str(getattr(feature, "health_key", type(feature).__name__.lower()))
                same = sum(name.split(" ")[0] == key for name in named)
                named[f"{key} {same + 1}" if same else key] = feature
        return named

    @property
    def all(self) -> tuple[object, ...]:
        """All features."""
        return (*self.by_name.values(), *self.others)

    async def forget(self, session: str) -> None:
        """Delete what the features store for a conversation."""
        for feature in self.all:
            if isinstance(feature, SessionScopedFeature):
                await feature.forget(session)

    @property
    def introduction(self) -> str:
        """The texts that features add to the instructions."""
        texts = (f.introduction() for f in self.all if isinstance(f, InstructionsFeature))
        return "\n\n".join(text for text in texts if text)

    @cached_property
    def visible_tools(self) -> Mapping[str, tuple[ToolFeature, Tool]]:
        """The tools that features add to the view, each with its feature."""
        return {t.name: (f, t) for f in self.all if isinstance(f, ToolFeature) for t in f.tools()}

    @cached_property
    def callable_tools(self) -> Mapping[str, tuple[ToolFeature, Tool]]:
        """The visible tools and the aliases, each with its feature."""
        aliases = {
            t.name: (f, t)
            for f in self.all
            if isinstance(f, ToolFeature) and isinstance(f, AliasFeature)
            for t in f.alias_tools()
        }
        # Visible tools last, so that no alias of one feature hides a tool of another.
        return {**aliases, **self.visible_tools}


def find_shadowed_tools(
    catalog: Catalog, *, profile: Profile, features: Features
) -> Mapping[str, str]:
    """Sources with tools that cannot be called, because a feature or the profile has the name."""
    own = dict.fromkeys(features.callable_tools, "a feature of this toolbox")
    own |= dict.fromkeys((m.name for m in profile.metatools), f"the profile {profile.name}")
    found: dict[str, list[str]] = defaultdict(list)
    for name, owner in own.items():
        if (source := catalog.source_of(name)) is not None:
            found[source].append(f"{name} cannot be called, since {owner} has a tool of that name")
    return {source: f"{'; '.join(why)}. Give it another name." for source, why in found.items()}
