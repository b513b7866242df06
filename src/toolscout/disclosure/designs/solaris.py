"""Design A, Solaris: every tool is registered, but the prompt describes only the core tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...catalog.result import Result
from ...catalog.sanitization import clean_line
from ...catalog.tool import Tool
from ...catalog.tool_text import describe_arguments
from ..matcher import SearchDomain, ToolMatches
from ..profile import DisclosureLimits, HintTemplate, Profile, metatool, object_schema
from ..prompts import Prompt, PromptContext, PromptRenderer
from ..reply import ToolSearchResult, json_result
from ..scope import Policy, ToolSelector


@dataclass(frozen=True, slots=True)
class SubstringMatcher:
    """Finds tools whose name, category or description contains the query, ignoring case."""

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        """Every tool that contains the query as one phrase; an empty query matches all."""
        phrase = query.lower()
        found = tuple(t for t in domain.tools if _contains_text(t, phrase))[:limit]
        return ToolMatches(tools=found, scores=(1.0,) * len(found))


def _contains_text(tool: Tool, phrase: str) -> bool:
    return any(phrase in text.lower() for text in (tool.name, tool.category, tool.description))


def render_entries(found: ToolSearchResult) -> Result:
    """Every hit as one entry; without a hit, the categories to try instead."""
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
    """An example call with the required arguments."""
    required = {
        p.name: p.values[0] if p.values else "…" for p in tool.parameters.top_level() if p.required
    }
    return f"{tool.name}({json.dumps(required, ensure_ascii=False) if required else ''})"


def catalog_prompt(detail: Literal["names", "one_line"] = "names") -> PromptRenderer:
    """A prompt that describes the tools in view and lists the others by category.

    `detail` lists the others by name only, or with one line for each.
    """

    def render(context: PromptContext) -> Prompt:
        core = "\n".join(f"- **{t.name}**: {t.description}" for t in context.tools_in_view)
        others = "\n".join(
            _category_lines(category, tools, detail)
            for category, tools in _group_by_category(context.tools_out_of_view)
        )
        if not others:
            return Prompt(f"## Core tools\n{core}")
        return Prompt(
            f"## Core tools\n{core}\n\n"
            f"## Other tools (find them with {context.search})\n"
            f"These can be used too; `{context.search}` tells how:\n{others}\n\n"
            f"When you need one of them, FIRST use `{context.search}` for its details, THEN, if "
            "the answer names a skill, `readSkill` for guidance, and then use the tool."
        )

    return render


def _group_by_category(tools: Iterable[Tool]) -> Iterable[tuple[str, list[Tool]]]:
    """Tools by category, or by server without one, in the given order."""
    groups: dict[str, list[Tool]] = {}
    for tool in tools:
        groups.setdefault(tool.category or tool.server or "Other", []).append(tool)
    return groups.items()


def _category_lines(name: str, tools: list[Tool], detail: Literal["names", "one_line"]) -> str:
    if detail == "names":
        return f"- **{name}**: {', '.join(t.name for t in tools)}"
    lines = (f"  - {t.name}: {_short_description(t.description)}" for t in tools)
    return "\n".join([f"- **{name}**:", *lines])


def _short_description(text: str) -> str:
    return clean_line(text.split(". ")[0], cap=120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One switch on a settings page of an application: a label, and the tools it turns off.

    Define one for each category of tools, show them to the user with `is_on`, store what the user
    chose by `id`, and pass `allow_rule(switches, stored)` as `allow` to a session. A core switch
    is shown locked.
    """

    id: str
    name: str
    tools: ToolSelector
    description: str = ""
    is_core: bool = False

    def is_on(self, stored: Mapping[str, object]) -> bool:
        """Whether it is on: always for a core switch, else unless the stored value is false."""
        # `is not False`, so that a missing or damaged setting leaves the tools on.
        return self.is_core or stored.get(self.id) is not False


DISCOVERY = Switch(
    id="discovery",
    name="Discovery Tools",
    description="Find tools and skills.",
    tools=ToolSelector(names=("searchTools", "searchSkills", "readSkill")),
    is_core=True,
)
"""The switch for discovery tools, which is locked: without them no other tool is found."""


def allow_rule(
    switches: Collection[Switch],
    stored: Mapping[str, object],
    *,
    selected: Collection[str] = (),
) -> Callable[[Tool], bool]:
    """An allow rule for the tools that are switched on; `selected` narrows it to these names.

    Tools without a switch are on, and so are switches without a stored setting.
    """
    off = [s.tools for s in switches if not s.is_on(stored)]
    core = [s.tools for s in switches if s.is_core]
    chosen = frozenset(selected)

    def allow(tool: Tool) -> bool:
        # Core first: neither a switch nor a selection may take discovery away.
        if any(selector.covers(tool) for selector in core):
            return True
        if any(selector.covers(tool) for selector in off):
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
    # The design's SDK needs every tool registered in advance, so tools are hidden in the prompt
    # only and stay callable.
    hiding="prompt",
    policy=Policy(rule="listed"),
    matcher=SubstringMatcher(),
    searches_deferred_only=True,
    reply=render_entries,
    prompt=catalog_prompt(),
    limits=DisclosureLimits(hits=None, max_hits=None),
    no_match_hint=HintTemplate(
        parts=("categories", "message"), message="No tool matched. Try one of the categories."
    ),
    on_empty="all",
    on_unloaded="execute",
)


def solaris_profile() -> Profile:
    """The profile with its options; none so far."""
    return SOLARIS
