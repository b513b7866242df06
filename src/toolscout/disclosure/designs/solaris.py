"""Design A, Solaris: every tool is registered, but the prompt describes only the core tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ...catalog.result import Result
from ...catalog.sanitization import clean_line
from ...catalog.tool import Tool
from ...catalog.tool_text import describe_arguments
from ..matcher import SearchDomain, ToolMatches
from ..profile import DisclosureLimits, HintTemplate, Profile, metatool, object_schema
from ..prompts import Prompt, PromptContext, PromptRenderer
from ..reply import ToolSearchResult, json_result
from ..scope import Policy, Scope, ToolSelector

CatalogDetail = Literal["names", "one_line"]
"""How the prompt lists the tools that it does not describe: by name, or with one line for each."""

_UNNAMED_CATEGORY = "Other"
_SKILL_READERS = ("readSkill", "read_skill")


@dataclass(frozen=True, slots=True)
class ToolLabels:
    """Categories and skills for tools whose source gives them none, as with MCP servers.

    Both map a label to the names or servers of its tools. A label wins over the tool's own.
    """

    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    skills: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def category(self, tool: Tool) -> str:
        """The category of a tool; without one, its server stands for it."""
        return _label(self.categories, tool) or tool.category or tool.server or _UNNAMED_CATEGORY

    def skill(self, tool: Tool) -> str:
        """The id of the skill that goes with a tool; empty without one."""
        return _label(self.skills, tool) or tool.skill


_NO_LABELS = ToolLabels()


def _label(labels: Mapping[str, tuple[str, ...]], tool: Tool) -> str:
    """The label of a tool by its name, else by its server."""
    by_name = (name for name, of in labels.items() if tool.name in of or tool.local_name in of)
    by_server = (name for name, of in labels.items() if tool.server and tool.server in of)
    return next(by_name, "") or next(by_server, "") if labels else ""


@dataclass(frozen=True, slots=True)
class SubstringMatcher:
    """Finds tools whose name, category or description contains the query, ignoring case."""

    labels: ToolLabels = _NO_LABELS

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        """Every tool that contains the query as one phrase; an empty query matches all."""
        phrase = query.lower()
        found = tuple(t for t in domain.tools if self._contains_text(t, phrase))[:limit]
        return ToolMatches(tools=found, scores=(1.0,) * len(found))

    def _contains_text(self, tool: Tool, phrase: str) -> bool:
        texts = (tool.name, self.labels.category(tool), tool.description)
        return any(phrase in text.lower() for text in texts)


@dataclass(frozen=True, slots=True)
class EntryReply:
    """Writes every hit as one entry; without a hit, the categories to try instead."""

    labels: ToolLabels = _NO_LABELS

    def __call__(self, found: ToolSearchResult) -> Result:
        """The reply as JSON."""
        if found.tools:
            reader = _skill_reader(found.extras, found.after)
            entries = [self._entry(tool, reader) for tool in found.tools]
            return json_result({"query": found.query, "results": entries})
        deferred = found.after.deferrable_tools if found.after else ()
        categories = [*dict.fromkeys(self.labels.category(t) for t in deferred)]
        empty = {"query": found.query, "results": [], "allCategories": categories}
        return json_result({**empty, "message": found.hint.message})

    def _entry(self, tool: Tool, reader: str) -> dict[str, Any]:
        skill = self.labels.skill(tool)
        return {
            "name": tool.name,
            "category": self.labels.category(tool),
            "description": tool.description,
            "parameters": describe_arguments(tool),
            "usage": tool.usage or usage_example(tool),
            # A hint to a missing tool would only mislead.
            "relatedSkill": f"Load the skill '{skill}' with {reader} for expert guidance."
            if skill and reader
            else None,
        }


def _skill_reader(own: Iterable[Tool], scope: Scope | None) -> str:
    """The name of the tool that reads skills: a feature's, else one of the catalog, else none."""
    catalog = scope.tools if scope else ()
    readers = (t.name for t in (*own, *catalog) if t.local_name in _SKILL_READERS)
    return next(readers, "")


def usage_example(tool: Tool) -> str:
    """An example call with the required arguments."""
    required = {
        p.name: p.values[0] if p.values else "…" for p in tool.parameters.top_level() if p.required
    }
    return f"{tool.name}({json.dumps(required, ensure_ascii=False) if required else ''})"


def catalog_prompt(
    detail: CatalogDetail = "names", labels: ToolLabels = _NO_LABELS
) -> PromptRenderer:
    """A prompt that describes the tools in view and lists the others by category."""

    def render(context: PromptContext) -> Prompt:
        core = "\n".join(
            f"- **{t.name}**: {' '.join(t.description.split())}" for t in context.tools_in_view
        )
        others = "\n".join(
            _category_lines(category, tools, detail)
            for category, tools in _group_by_category(context.tools_out_of_view, labels)
        )
        if not others:
            return Prompt(f"## Core tools\n{core}")
        reader = _skill_reader(context.own, context.scope)
        guidance = f" THEN optionally `{reader}` for expert guidance," if reader else ""
        return Prompt(
            f"## Core tools\n{core}\n\n"
            f"## Other tools (find them with {context.search})\n"
            f"You can use these too; `{context.search}` shows how:\n{others}\n\n"
            f"When you need one of them, FIRST use `{context.search}` for its details,{guidance} "
            "and then use the tool."
        )

    return render


def _group_by_category(
    tools: Iterable[Tool], labels: ToolLabels
) -> Iterable[tuple[str, list[Tool]]]:
    """Tools by category, in the given order."""
    groups: dict[str, list[Tool]] = {}
    for tool in tools:
        groups.setdefault(labels.category(tool), []).append(tool)
    return groups.items()


def _category_lines(name: str, tools: list[Tool], detail: CatalogDetail) -> str:
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
    "parameters and usage. Use it for tasks that your core tools do not cover, such as browsing "
    "the web or running code.",
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
    on_unloaded="execute",
    # The application's own tools are core, those of servers are found: described one by one, the
    # tools of a few servers would fill the prompt.
    policy=Policy(rule="served"),
    matcher=SubstringMatcher(),
    searches_deferred_only=True,
    reply=EntryReply(),
    prompt=catalog_prompt(),
    limits=DisclosureLimits(hits=None, max_hits=None),
    no_match_hint=HintTemplate(
        parts=("categories", "message"), message="No tool matched. Try one of the categories."
    ),
    on_empty="all",
    skill_style="camel",
    skill_matching="literal",
)


def solaris_profile(
    *,
    core: tuple[str, ...] = (),
    deferred: tuple[str, ...] = (),
    categories: Mapping[str, tuple[str, ...]] | None = None,
    skills: Mapping[str, tuple[str, ...]] | None = None,
    catalog_detail: CatalogDetail = "names",
) -> Profile:
    """The profile with its options.

    `core` and `deferred` are names of tools, servers or categories: those that the prompt
    describes, and those that are found. With one of them, all other tools are the opposite.
    `categories` maps a category to its tools, which are found, and `skills` maps a skill to the
    tools that it goes with. `catalog_detail` is how the prompt lists the tools that it does not
    describe.
    """
    labels = ToolLabels(categories or {}, skills or {})
    listed = (*deferred, *(name for of in labels.categories.values() for name in of))
    policy = replace(SOLARIS.policy, pinned=_selector(core), deferred=_selector(listed))
    if core and not listed:
        policy = replace(policy, rule="all")
    elif listed and not core:
        policy = replace(policy, rule="listed")
    return replace(
        SOLARIS,
        policy=policy,
        matcher=SubstringMatcher(labels),
        reply=EntryReply(labels),
        prompt=catalog_prompt(catalog_detail, labels),
    )


def _selector(names: tuple[str, ...]) -> ToolSelector:
    """A selector that takes each name for a tool, a server or a category."""
    return ToolSelector(names=names, servers=names, categories=names)
