"""Design E, CMS: one search tool; found tools are loaded and come with their rules of use.

The design is that of a content management agent. Its tools belong to categories (pages, images,
navigation), each with rules that the reply delivers together with the tools.
"""

from __future__ import annotations

from ...catalog.result import Result
from ..matcher import HybridMatcher, load_all
from ..profile import DisclosureLimits, HintTemplate, Profile, metatool, object_schema
from ..prompts import Prompt, PromptContext
from ..reply import ToolSearchResult, json_result
from ..scope import Policy


def render_rules(found: ToolSearchResult) -> Result:
    """The found tools, the rules for using them, and what to do next."""
    next_step = "These tools are now available. Search again if you need more."
    return json_result(
        {
            "tools": [{"name": t.name, "description": t.description} for t in found.tools],
            "rules": found.rules,
            "instruction": next_step if found.tools else found.hint.message,
        }
    )


def discovery_prompt(context: PromptContext) -> Prompt:
    """A short section in tags: describe the need, rules are included, or answer directly."""
    return Prompt(
        "<tool-discovery>\n"
        f"Use **{context.search}** to find the tools you need:\n"
        "- Say in natural language what you want to do.\n"
        "- You get fitting tools together with the rules for using them.\n"
        "- Search again whenever you need something more.\n\n"
        "If you can answer without tools, answer directly.\n"
        "</tool-discovery>"
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
    no_match_hint=HintTemplate(
        message='No tools found for "{query}". Try specific action words such as "create page" or '
        '"find image", rephrase what should be done, or, if you can answer without tools, answer '
        "directly."
    ),
    on_empty="none",
    on_unloaded="reject",
    # A hit brings the tools that are often used with it, up to the limit and no further.
    expands_related=True,
)


def cms_profile() -> Profile:
    """The profile with its options; none so far."""
    return CMS
