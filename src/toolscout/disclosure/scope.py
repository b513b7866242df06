"""What one caller may see, and which of it is in view: one chain of rules, with reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ..catalog.catalog import Catalog
from ..catalog.tool import Tool
from ..search.engine import Allow
from ..tokens import TokenCounter, count_json, default_counter
from .session_state import SessionState
from .snapshot import read_snapshot

DeferRule = Literal["none", "listed", "served", "all"]
"""What waits when nothing more special is said: no tool, those listed, those of a server, all."""

VisibilityReason = Literal[
    "discovery",
    "never_defer",
    "pinned",
    "loaded",
    "marked",
    "small",
    "shown",
    "listed",
    "served",
    "all",
    "unlisted",
    "elsewhere",
    "feature",
    "lost",
    "unknown",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSelector:
    """A set of tools told by their names, their servers or their categories."""

    names: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    def covers(self, tool: Tool) -> bool:
        """Whether the tool is meant, by any of the three."""
        return bool(self.names or self.servers or self.categories) and (
            tool.name in self.names
            or tool.local_name in self.names
            or tool.server in self.servers
            or tool.category in self.categories
        )


_REASONS: Mapping[VisibilityReason, tuple[bool, str]] = {
    "discovery": (True, "is in view: discovery tools always are."),
    "elsewhere": (False, "is not in the list here; a call of it is answered all the same."),
    "feature": (True, "is in view: what features add always is."),
    "never_defer": (True, "is in view: the tool asks never to be deferred."),
    "pinned": (True, "is in view: it is pinned by name, server or category."),
    "loaded": (True, "is in view: this conversation has loaded it."),
    "small": (True, "is in view: the catalog is small enough to show whole."),
    "shown": (True, "is in view: it has been since the conversation began."),
    "unlisted": (True, "is in view: no rule defers it."),
    "lost": (True, "keeps its place in view, but its server is not connected now."),
    "marked": (False, "is deferred: the tool asks to be."),
    "listed": (False, "is deferred: its name, server or category is listed so."),
    "served": (False, "is deferred: tools that come from a server are."),
    "all": (False, "is deferred: every tool is, unless it is pinned or loaded."),
    "unknown": (False, "is not in the catalog, or not allowed here."),
}


@dataclass(frozen=True, slots=True)
class Visibility:
    """Where a tool stands, and the reason: as a value, and as a sentence."""

    name: str
    reason: VisibilityReason

    @property
    def in_view(self) -> bool:
        """Whether the model sees its definition."""
        return _REASONS[self.reason][0]

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return f"{self.name} {_REASONS[self.reason][1]}"

    def __bool__(self) -> bool:
        return self.in_view


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules by which tools wait or are in view.

    The first that applies decides: a discovery tool is in view; so is a tool that asks never to
    be deferred; a pinned one; a loaded one; a tool that asks to be deferred waits; then `rule`.
    A catalog of fewer than `threshold` tools has nothing waiting; with `share`, its definitions
    must also fit in that part of the model's context window. With `counts_search` the search
    tool is one of the counted.
    """

    rule: DeferRule = "all"
    pinned: ToolSelector = ToolSelector()
    deferred: ToolSelector = ToolSelector()
    threshold: int = 0
    share: float | None = None
    window_tokens: int = 200_000
    marks_ignore_threshold: bool = False
    counts_search: bool = False

    def is_small(self, count: int, tokens: Callable[[], int]) -> bool:
        """Whether a catalog of so many tools goes straight into view."""
        if count + self.counts_search >= self.threshold:
            return False
        return self.share is None or tokens() <= self.share * self.window_tokens

    def visibility(
        self, tool: Tool, *, is_loaded: bool = False, is_small: bool = False
    ) -> Visibility:
        """Where a catalog tool stands now."""
        return Visibility(tool.name, self._reason(tool, is_loaded=is_loaded, is_small=is_small))

    def _reason(self, tool: Tool, *, is_loaded: bool, is_small: bool) -> VisibilityReason:
        if tool.defer == "never":
            return "never_defer"
        if self.pinned.covers(tool):
            return "pinned"
        if is_loaded:
            return "loaded"
        if tool.defer == "always" and (self.marks_ignore_threshold or not is_small):
            return "marked"
        return "small" if is_small else self._reason_by_rule(tool)

    def _reason_by_rule(self, tool: Tool) -> VisibilityReason:
        if self.rule != "none" and self.deferred.covers(tool):
            return "listed"
        if self.rule == "all":
            return "all"
        return "served" if self.rule == "served" and tool.server else "unlisted"


def is_allowed(tool: Tool, allow: Allow | None) -> bool:
    """Whether a rule, or a collection of names, lets a caller have a tool."""
    if allow is None:
        return True
    return allow(tool) if callable(allow) else tool.name in allow


@dataclass(frozen=True)
class Scope:
    """A catalog as one conversation may see it; what is costly is worked out once, when asked."""

    policy: Policy
    catalog: Catalog
    session: SessionState
    allow: Allow | None = None
    was_small: bool | None = None
    permanent_names: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, policy: Policy, catalog: Catalog, session: SessionState, allow: Allow | None = None
    ) -> Scope:
        """The scope of a conversation as its last view left it."""
        before = read_snapshot(session)
        if before is None:
            return cls(policy, catalog, session, allow)
        return cls(policy, catalog, session, allow, before.is_direct, before.permanent_names)

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """Every allowed tool, in the order of arrival."""
        return tuple(t for t in self.catalog if is_allowed(t, self.allow))

    @cached_property
    def is_small(self) -> bool:
        """Whether everything is in view: as it was decided before, else by the policy."""
        if self.was_small is not None:
            return self.was_small
        return is_small_catalog(self.policy, self.catalog, self.allow)

    @cached_property
    def tools_out_of_view(self) -> tuple[Tool, ...]:
        """The allowed tools that are not in view."""
        return tuple(t for t in self.tools if not self.visibility(t))

    @cached_property
    def deferrable_tools(self) -> tuple[Tool, ...]:
        """The allowed tools that wait, or would if they were not loaded."""
        small = self.is_small
        return tuple(t for t in self.tools if not self.policy.visibility(t, is_small=small))

    def get(self, name: str) -> Tool | None:
        """The tool of exactly this name, if the caller may have it."""
        tool = self.catalog.get(name)
        return tool if tool is not None and is_allowed(tool, self.allow) else None

    def visibility(self, tool: Tool) -> Visibility:
        """Where a tool stands in this conversation; what was shown at the start stays in view."""
        loaded = tool.name in self.loaded
        standing = self.policy.visibility(tool, is_loaded=loaded, is_small=self.is_small)
        if standing or tool.name not in self.permanent_names:
            return standing
        return Visibility(tool.name, "shown")

    @cached_property
    def loaded(self) -> frozenset[str]:
        """The names this conversation has loaded."""
        return frozenset(self.session.loaded)


def is_small_catalog(policy: Policy, catalog: Catalog, allow: Allow | None) -> bool:
    """Whether the allowed part of a catalog goes straight into view."""
    few: list[Tool] = []
    for tool in catalog:
        if is_allowed(tool, allow):
            few.append(tool)
            if len(few) >= policy.threshold:
                return False
    return policy.is_small(len(few), lambda: count_definition_tokens(few, by=default_counter()))


def count_definition_tokens(tools: Iterable[Tool], *, by: TokenCounter) -> int:
    """The tokens of whole definitions, as plain JSON."""
    return sum(
        by.count(f"{t.name}{t.description}") + count_json(t.parameters.value, by=by) for t in tools
    )
