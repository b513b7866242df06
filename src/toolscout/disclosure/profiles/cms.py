"""One tool to start with; what it finds is active in the next step, with the rules of use."""

from __future__ import annotations

from ..loading import everything
from ..matching.hybrid import Hybrid
from ..metatools import metatool, parameters
from ..policy import Policy
from ..profile import Advice, Limits, Profile
from ..prompts import tagged
from ..replies.ruled import ruled

_SEARCH = metatool(
    "search",
    "tool_search",
    "Search for the tools you need: describe the capability. Returns tools that you can then "
    "call, with the rules for using them. Search again if you need more.\n\n"
    "Examples:\n"
    '- "find image" → image search tools\n'
    '- "create page add section" → page and section tools\n'
    '- "update navigation menu" → navigation tools',
    parameters(
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
    matcher=Hybrid(),
    loading=everything,
    reply=ruled,
    prompt=tagged,
    limits=Limits(hits=5),
    advice=Advice(
        message='No tools found for "{query}". Try specific action words such as "create page" or '
        '"find image", rephrase what should be done, or, if you can answer without tools, answer '
        "directly."
    ),
    on_empty="none",
    on_unloaded="reject",
    expands_related=True,
)
