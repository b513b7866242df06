"""Which tools are in view and which wait to be found: one chain of rules, and why for each tool."""

from __future__ import annotations

from collections.abc import Callable
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
        return (
            tool.name in self.names
            or tool.local_name in self.names
            or tool.server in self.servers
            or tool.category in self.categories
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a tool stands, why, and the same as a sentence."""

    in_view: bool
    reason: Reason
    sentence: str

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
        if tool.defer == "never":
            return _shown(tool, "never_defer", "the tool asks never to be deferred")
        if self.pinned.covers(tool):
            return _shown(tool, "pinned", "it is pinned by name, server or category")
        if is_loaded:
            return _shown(tool, "loaded", "this conversation has loaded it")
        if tool.defer == "always" and (self.marks_ignore_threshold or not is_small):
            return _hidden(tool, "marked", "the tool asks to be deferred")
        if is_small:
            return _shown(tool, "small", "the catalog is small enough to show whole")
        return self._by_rule(tool)

    def _by_rule(self, tool: Tool) -> Standing:
        if self.rule != "none" and self.deferred.covers(tool):
            return _hidden(tool, "listed", "its name, server or category is listed as deferred")
        if self.rule == "all":
            return _hidden(tool, "all", "every tool waits unless it is pinned")
        if self.rule == "served" and tool.server:
            return _hidden(
                tool, "served", f"tools of a server wait, and it is one of {tool.server}"
            )
        return _shown(tool, "unlisted", "no rule defers it")


def _shown(tool: Tool, reason: Reason, because: str) -> Standing:
    return Standing(in_view=True, reason=reason, sentence=f"{tool.name} is in view: {because}.")


def _hidden(tool: Tool, reason: Reason, because: str) -> Standing:
    return Standing(in_view=False, reason=reason, sentence=f"{tool.name} is deferred: {because}.")
