"""Design E, CMS: one tool to start with; what it finds is callable next, with its rules."""

from __future__ import annotations

from ...catalog.result import Result
from ..matcher import HybridMatcher, load_all
from ..metatools import metatool, object_schema
from ..profile import DisclosureLimits, HintTemplate, Profile
from ..prompts import discovery_prompt
from ..reply import ToolSearchResult, json_result
from ..scope import Policy


def render_rules(found: ToolSearchResult) -> Result:
    """What is available now, how it is to be used, and what to do when more is needed."""
    done = "These tools are now available. Search again if you need more."
    return json_result(
        {
            "tools": [{"name": t.name, "description": t.description} for t in found.tools],
            "rules": found.rules,
            "instruction": done if found.tools else found.hint.message,
        }
    )


_SEARCH = metatool(
    "search",
    "tool_search",
    "Search for the tools you need: describe the capability. Returns tools that you can then "
    "call, with the rules for using them. Search again if you need more.\n\n"
    "Examples:\n"
    '- "find image" → image search tools\n'
    '- "create page add section" → page and section tools\n'
    '- "update navigation menu" → navigation tools',
    object_schema(
        "query",
        query={"type": "string", "description": "What do you need to do?"},
        limit={"type": "number", "description": "The most tools to return.", "default": 5},
    ),
)

CMS = Profile(
    name="cms",
    summary="Starts with one tool; hybrid search, rules with the results, memory across turns.",
    metatools=(_SEARCH,),
    policy=Policy(rule="all"),
    matcher=HybridMatcher(),
    loading=load_all,
    reply=render_rules,
    prompt=discovery_prompt,
    limits=DisclosureLimits(hits=5),
    advice=HintTemplate(
        message='No tools found for "{query}". Try specific action words such as "create page" or '
        '"find image", rephrase what should be done, or, if you can answer without tools, answer '
        "directly."
    ),
    on_empty="none",
    on_unloaded="reject",
    expands_related=True,
)
