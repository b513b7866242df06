"""Which tools are in view and which wait to be found: one chain of rules, and why for each tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..catalog.tool import Tool

Rule = Literal["none", "listed", "served", "all"]
"""What waits when nothing more special is said: no tool, those listed, those of a server, all."""

Reason = Literal[
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
class Listing:
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


_BECAUSE: Mapping[Reason, tuple[bool, str]] = {
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
class Standing:
    """Where a tool stands, and the reason: as a value, and as a sentence."""

    name: str
    reason: Reason

    @property
    def in_view(self) -> bool:
        """Whether the model sees its definition."""
        return _BECAUSE[self.reason][0]

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return f"{self.name} {_BECAUSE[self.reason][1]}"

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

    rule: Rule = "all"
    pinned: Listing = Listing()
    deferred: Listing = Listing()
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

    def stand(self, tool: Tool, *, is_loaded: bool = False, is_small: bool = False) -> Standing:
        """Where a catalog tool stands now."""
        return Standing(tool.name, self._reason(tool, is_loaded=is_loaded, is_small=is_small))

    def _reason(self, tool: Tool, *, is_loaded: bool, is_small: bool) -> Reason:
        if tool.defer == "never":
            return "never_defer"
        if self.pinned.covers(tool):
            return "pinned"
        if is_loaded:
            return "loaded"
        if tool.defer == "always" and (self.marks_ignore_threshold or not is_small):
            return "marked"
        return "small" if is_small else self._by_rule(tool)

    def _by_rule(self, tool: Tool) -> Reason:
        if self.rule != "none" and self.deferred.covers(tool):
            return "listed"
        if self.rule == "all":
            return "all"
        return "served" if self.rule == "served" and tool.server else "unlisted"
