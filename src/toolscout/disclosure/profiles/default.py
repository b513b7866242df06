"""The default profile, its compact variant, and the profile that shows every tool."""

from __future__ import annotations

from dataclasses import replace

from ..matcher import HybridMatcher, load_best
from ..nothing_fits import NOTHING_FITS
from ..profile import (
    CALL_TOOL,
    DisclosureLimits,
    HintTemplate,
    Profile,
    metatool,
    object_schema,
)
from ..prompts import roster_prompt
from ..reply import DefaultReply, describe_compact, describe_full
from ..scope import Policy

# How a model asks moves recall more than any constant of the ranking: 3 to 24 points. Each phrase
# of these two texts has a reason, listed in docs/profiles.md.
_QUERY = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    "description": "The tool you need, as verb and object plus the service if known: "
    '"list pull requests github". Not the user\'s sentence: leave out names, dates and other '
    "values. One short query per need; several needs as a list. An exact tool name or "
    '"select:name1,name2" works too; "+word" must occur; any language.',
}

_SEARCH = metatool(
    "search",
    "tool_search",
    "Finds tools by what they do. It finds every tool that exists, so use it before you decide "
    "that something cannot be done. The best match is ready to call, others are one-line "
    "signatures; it says when nothing fits.",
    object_schema(
        "query",
        query=_QUERY,
        limit={"type": "integer", "description": "How many tools to return, 5 if left out."},
    ),
)

# On load and native a tool arrives with its schema, so there is nothing left to describe.
_DESCRIBE = metatool(
    "describe",
    "describe_tools",
    "Returns the full parameter schemas of tools you know by name.",
    object_schema(
        "names",
        names={"type": "array", "items": {"type": "string"}, "description": "Exact tool names."},
    ),
    surfaces=("dispatch",),
)

# Answered, but not listed: unloading changes the tool list and so costs the cached prefix.
_UNLOAD = metatool(
    "unload",
    "unload_tools",
    "Removes tools that you no longer need from your list.",
    object_schema("names", names={"type": "array", "items": {"type": "string"}}),
    surfaces=(),
)

DEFAULT = Profile(
    name="default",
    summary="One search tool and a roster of all tools; the best hit is ready to call.",
    metatools=(_SEARCH, _DESCRIBE, CALL_TOOL, _UNLOAD),
    # A catalog below 15 tools and a tenth of the context window is cheaper to show whole.
    policy=Policy(rule="all", threshold=15, share=0.10),
    matcher=HybridMatcher(),
    loading=load_best,
    reply=DefaultReply(),
    describe=describe_full,
    prompt=roster_prompt,
    limits=DisclosureLimits(hits=5, max_hits=20),
    no_match_hint=HintTemplate(message=f"{NOTHING_FITS} {{query}}."),
    on_empty="error",
    on_unloaded="execute",
    surface="auto",
    roster_tokens=800,
)

# A resolved lookup takes 548 tokens with outlines, 775 with schemas (docs/decisions/replies.md).
COMPACT = replace(
    DEFAULT,
    name="compact",
    summary="The default with schemas as outlines: one line per argument instead of JSON.",
    reply=DefaultReply(describe=describe_compact),
    describe=describe_compact,
)


EVERYTHING = Profile(
    name="everything",
    summary="All tools in view, no discovery tools.",
    metatools=(),
    # Required fields, never used: without discovery tools nothing is matched or replied to.
    matcher=HybridMatcher(),
    reply=DefaultReply(),
    policy=Policy(rule="none"),
)
