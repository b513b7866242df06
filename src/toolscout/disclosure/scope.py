"""Which tools a caller may use and which of them are in view, with a reason for each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ..catalog.catalog import Catalog
from ..catalog.tool import CHANGED_WIRE_NAME, Tool, wire_name
from ..search.engine import Allow
from ..tokens import count_json, default_counter
from .session_state import SessionState
from .snapshot import read_snapshot

DeferRule = Literal["none", "listed", "served", "all"]
"""Which tools are deferred by default: none, the listed ones, those of servers, or all."""

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
    """A set of tools, selected by name, server or category."""

    names: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    def covers(self, tool: Tool) -> bool:
        """Whether the name, the server or the category of the tool is selected."""
        # Most selectors are empty. One test up front keeps a pass over 100,000 tools fast.
        return bool(self.names or self.servers or self.categories) and (
            tool.name in self.names
            or tool.local_name in self.names
            or tool.server in self.servers
            or tool.category in self.categories
        )

    def unmatched_names(self, tools: Iterable[Tool]) -> tuple[str, ...]:
        """The names that select none of these tools: most likely typos."""
        left = dict.fromkeys(self.names)
        for tool in tools:
            if not left:
                break
            left.pop(tool.name, None)
            left.pop(tool.local_name, None)
            if tool.server in self.servers:
                left.pop(tool.server, None)
            if tool.category in self.categories:
                left.pop(tool.category, None)
        return tuple(left)


# Each reason with whether it puts the tool in view, and the end of the sentence that explains it.
_REASONS: Mapping[VisibilityReason, tuple[bool, str]] = {
    "discovery": (True, "is in view: discovery tools always are."),
    "elsewhere": (False, "is not in the list here, but calls of it are answered."),
    "feature": (True, "is in view: tools that features add always are."),
    "never_defer": (True, "is in view: the tool asks never to be deferred."),
    "pinned": (True, "is in view: it is pinned by name, server or category."),
    "loaded": (True, "is in view: this conversation has loaded it."),
    "small": (True, "is in view: the catalog is small enough to show whole."),
    "shown": (True, "is in view: it was when the conversation began."),
    "unlisted": (True, "is in view: no rule defers it."),
    "lost": (True, "keeps its place in view, but its server is not connected now."),
    "marked": (False, "is deferred: the tool asks to be."),
    "listed": (False, "is deferred: its name, server or category is listed as deferred."),
    "served": (False, "is deferred: the profile defers tools that come from a server."),
    "all": (False, "is deferred: the profile defers every tool that is not pinned or loaded."),
    "unknown": (False, "is not in the catalog, or not allowed here."),
}


@dataclass(frozen=True, slots=True)
class Visibility:
    """Whether a tool is in view, and why: as a value and as a sentence."""

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
    """The rules that decide which tools are deferred.

    The first rule that applies decides: discovery tools are in view, then tools that must never
    be deferred, pinned tools and loaded tools; tools that ask to be deferred are; then `rule`.
    A catalog of fewer than `threshold` tools is shown whole; with `share`, its definitions must
    also fit in that part of the model's context window. With `counts_search` the search tool
    counts towards the threshold.
    """

    rule: DeferRule = "all"
    pinned: ToolSelector = ToolSelector()
    deferred: ToolSelector = ToolSelector()
    threshold: int = 0
    share: float | None = None
    window_tokens: int = 200_000
    marks_ignore_threshold: bool = False
    counts_search: bool = False

    @property
    def fingerprint(self) -> str:
        """A hash of these rules, to tell whether they changed."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    def is_small(self, count: int, tokens: Callable[[], int]) -> bool:
        """Whether a catalog of so many tools is shown whole."""
        if count + self.counts_search >= self.threshold:
            return False
        # `tokens` is a function because counting is slow and most catalogs fail the first test.
        return self.share is None or tokens() <= self.share * self.window_tokens

    def visibility(
        self, tool: Tool, *, is_loaded: bool = False, is_small: bool = False
    ) -> Visibility:
        """The visibility of a catalog tool by these rules alone."""
        return Visibility(tool.name, self._reason(tool, is_loaded=is_loaded, is_small=is_small))

    def _reason(self, tool: Tool, *, is_loaded: bool, is_small: bool) -> VisibilityReason:
        # The order is the documented chain (docs/profiles.md). Loaded comes before marked, so that
        # a tool which asks to be deferred can be loaded. Pinned comes before loaded, so that the
        # reason given is the one that lasts.
        if tool.defer == "never":
            return "never_defer"
        if self.pinned.covers(tool):
            return "pinned"
        if is_loaded:
            return "loaded"
        if tool.defer == "always" and (self.marks_ignore_threshold or not is_small):
            return "marked"
        reason = self._reason_by_rule(tool)
        return "small" if is_small and reason != "unlisted" else reason

    def _reason_by_rule(self, tool: Tool) -> VisibilityReason:
        if self.rule != "none" and self.deferred.covers(tool):
            return "listed"
        if self.rule == "all":
            return "all"
        return "served" if self.rule == "served" and tool.server else "unlisted"


def is_allowed(tool: Tool, allow: Allow | None) -> bool:
    """Whether an allow rule, or a collection of allowed names, permits a tool."""
    if allow is None:
        return True
    return allow(tool) if callable(allow) else tool.name in allow


# No slots: cached properties need the instance dictionary.
@dataclass(frozen=True)
class Scope:
    """A catalog as one conversation may see it; expensive parts are computed once, on demand."""

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
        """Every allowed tool, in catalog order."""
        return tuple(t for t in self.catalog if is_allowed(t, self.allow))

    @cached_property
    def is_small(self) -> bool:
        """Whether everything is in view: as the last view decided, else by the policy."""
        if self.was_small is not None:
            return self.was_small
        return is_small_catalog(self.policy, self.catalog, self.allow)

    @cached_property
    def tools_out_of_view(self) -> tuple[Tool, ...]:
        """The allowed tools that are not in view."""
        return tuple(t for t in self.tools if not self.visibility(t))

    @cached_property
    def deferrable_tools(self) -> tuple[Tool, ...]:
        """The allowed tools that are deferred, or would be if they were not loaded."""
        small = self.is_small
        return tuple(t for t in self.tools if not self.policy.visibility(t, is_small=small))

    def get(self, name: str) -> Tool | None:
        """The tool with exactly this name, if the caller may use it."""
        tool = self.catalog.get(name)
        return tool if tool is not None and is_allowed(tool, self.allow) else None

    def tools_by_wire_name(self, name: str) -> tuple[Tool, ...]:
        """The allowed tools that a provider knows by this name, if it differs from their own."""
        # The form is checked first, because hashing every name of the catalog is slow.
        tools = self.tools if CHANGED_WIRE_NAME.fullmatch(name) else ()
        return tuple(t for t in tools if wire_name(t.name) == name)

    def is_loaded(self, name: str) -> bool:
        """Whether this conversation has loaded a tool of this name, in the catalog or not."""
        return name in self._session_loads

    def visibility(self, tool: Tool) -> Visibility:
        """The visibility of a tool in this conversation."""
        by_policy = self.policy.visibility(
            tool, is_loaded=self.is_loaded(tool.name), is_small=self.is_small
        )
        # A tool that was sent at the start stays in the list, so that the cached prefix holds.
        # It is in view even if the policy would defer it today.
        if by_policy or tool.name not in self.permanent_names:
            return by_policy
        return Visibility(tool.name, "shown")

    @cached_property
    def _session_loads(self) -> frozenset[str]:
        return frozenset(self.session.loaded)


def is_small_catalog(policy: Policy, catalog: Catalog, allow: Allow | None) -> bool:
    """Whether the allowed part of a catalog is shown whole."""
    allowed: list[Tool] = []
    for tool in catalog:
        if is_allowed(tool, allow):
            allowed.append(tool)
            # Stop early: a catalog of 100,000 tools is large after the first few.
            if len(allowed) >= policy.threshold:
                return False
    return policy.is_small(len(allowed), lambda: _count_tokens(allowed))


def _count_tokens(tools: Iterable[Tool]) -> int:
    """The tokens of complete definitions, written as plain JSON."""
    counter = default_counter()
    return sum(
        counter.count(f"{t.name}{t.description}") + count_json(t.parameters.value, counter=counter)
        for t in tools
    )
