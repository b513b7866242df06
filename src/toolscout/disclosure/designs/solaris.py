"""Design A, Solaris: all tools registered, only the core ones described."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ...catalog.result import Result
from ...catalog.tool import Tool
from ...catalog.tool_text import describe_arguments
from ..matcher import SearchDomain, ToolMatches
from ..metatools import metatool, object_schema
from ..profile import DisclosureLimits, HintTemplate, Profile
from ..prompts import catalog_prompt
from ..reply import ToolSearchResult, json_result
from ..scope import Policy, ToolSelector


@dataclass(frozen=True, slots=True)
class SubstringMatcher:
    """Keeps a tool whose name, category or description contains the query, whatever its case."""

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        """All that contain the query as it is, spaces included; an empty one is in every text."""
        wanted = query.lower()
        found = tuple(t for t in domain.tools if _contains_text(t, wanted))[:limit]
        return ToolMatches(tools=found, scores=(1.0,) * len(found))


def _contains_text(tool: Tool, wanted: str) -> bool:
    return any(wanted in text.lower() for text in (tool.name, tool.category, tool.description))


def render_entries(found: ToolSearchResult) -> Result:
    """Every hit as one entry; with none, the categories to try instead."""
    if found.tools:
        return json_result({"query": found.query, "results": [_entry(t) for t in found.tools]})
    empty: dict[str, Any] = {"query": found.query, "results": []}
    if found.hint.categories:
        empty["allCategories"] = [*found.hint.categories]
    if found.hint.message:
        empty["message"] = found.hint.message
    return json_result(empty)


def _entry(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "category": tool.category,
        "description": tool.description,
        "parameters": describe_arguments(tool),
        "usage": tool.usage or usage_example(tool),
        "relatedSkill": f"Load the skill '{tool.skill}' with readSkill to use it well."
        if tool.skill
        else None,
    }


def usage_example(tool: Tool) -> str:
    """A call with what is required, as an example."""
    needed = {
        p.name: p.values[0] if p.values else "…" for p in tool.parameters.top_level() if p.required
    }
    return f"{tool.name}({json.dumps(needed, ensure_ascii=False) if needed else ''})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One switch of a settings page: what it is called, which tools it governs, if it is locked."""

    id: str
    name: str
    tools: ToolSelector
    description: str = ""
    is_core: bool = False

    def is_on(self, stored: Mapping[str, object]) -> bool:
        """Core switches are always on; others unless what was stored says exactly false."""
        return self.is_core or stored.get(self.id) is not False


DISCOVERY = Switch(
    id="discovery",
    name="Discovery Tools",
    description="Find tools and skills.",
    tools=ToolSelector(names=("searchTools", "searchSkills", "readSkill")),
    is_core=True,
)
"""The switch that cannot be turned off."""


def allowed(
    switches: Collection[Switch],
    stored: Mapping[str, object],
    *,
    selected: Collection[str] = (),
) -> Callable[[Tool], bool]:
    """A rule that lets through what is switched on and, if any are selected, only those.

    Tools that no switch governs are on, and switches that settings do not know are on.
    """
    off = [s.tools for s in switches if not s.is_on(stored)]
    core = [s.tools for s in switches if s.is_core]
    chosen = frozenset(selected)

    def allow(tool: Tool) -> bool:
        if any(listing.covers(tool) for listing in core):
            return True
        if any(listing.covers(tool) for listing in off):
            return False
        return not chosen or tool.name in chosen

    return allow


_SEARCH = metatool(
    "search",
    "searchTools",
    "Search the other tools by name, category or capability. Returns their descriptions, "
    "parameters and usage. Use it for what your core tools do not cover, such as browsing the web "
    "or running code.",
    object_schema(
        "query",
        query={
            "type": "string",
            "description": "A word to look for, such as 'browser', 'code execution' or 'weather'.",
        },
    ),
)

SOLARIS = Profile(
    name="solaris",
    summary="All tools stay registered; the prompt describes core ones and only names the rest.",
    metatools=(_SEARCH,),
    hiding="prompt",
    policy=Policy(rule="listed"),
    matcher=SubstringMatcher(),
    searches_waiting_only=True,
    reply=render_entries,
    prompt=catalog_prompt(),
    limits=DisclosureLimits(hits=None, most=None),
    advice=HintTemplate(
        parts=("categories", "message"), message="No tool matched. Try one of the categories."
    ),
    on_empty="all",
    on_unloaded="execute",
)
