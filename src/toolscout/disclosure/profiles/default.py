"""The default: what the designs and the field give at their best, none of them copied."""

from __future__ import annotations

from dataclasses import replace

from ..designs.mcpagent import render_brief
from ..matcher import HybridMatcher, load_best
from ..metatools import CALL_TOOL, metatool, object_schema
from ..profile import DisclosureLimits, HintTemplate, Profile
from ..prompts import roster_prompt
from ..reply import DefaultReply, describe_compact, describe_full
from ..scope import Policy

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
    "Finds tools by what they do. Every tool that exists can be had through it, so use it before "
    "you decide that something cannot be done. The best match comes ready to call, others as "
    "one-line signatures; it says so when nothing fits.",
    object_schema(
        "query",
        query=_QUERY,
        limit={"type": "integer", "description": "How many tools to return, 5 if left out."},
    ),
)

_DESCRIBE = metatool(
    "describe",
    "describe_tools",
    "Gives the full parameter schemas of tools you know by name.",
    object_schema(
        "names",
        names={"type": "array", "items": {"type": "string"}, "description": "Exact tool names."},
    ),
    shown=("dispatch",),
)

_UNLOAD = metatool(
    "unload",
    "unload_tools",
    "Takes tools out of your list that you no longer need.",
    object_schema("names", names={"type": "array", "items": {"type": "string"}}),
    shown=(),
)

DEFAULT = Profile(
    name="default",
    summary="One search tool and a roster of what exists; the best hit comes ready to call.",
    metatools=(_SEARCH, _DESCRIBE, CALL_TOOL, _UNLOAD),
    policy=Policy(rule="all", threshold=15, share=0.10),
    matcher=HybridMatcher(),
    loading=load_best,
    reply=DefaultReply(),
    describe=describe_full,
    prompt=roster_prompt,
    limits=DisclosureLimits(hits=5, most=20),
    advice=HintTemplate(message="No tool fits {query}."),
    on_empty="error",
    on_unloaded="execute",
    surface="auto",
    roster_tokens=800,
)

COMPACT = replace(
    DEFAULT,
    name="compact",
    summary="The default with schemas as outlines: a line an argument instead of JSON.",
    reply=DefaultReply(describe=describe_compact),
    describe=describe_compact,
)


EVERYTHING = Profile(
    name="everything",
    summary="All tools in view, no discovery tools.",
    metatools=(),
    matcher=HybridMatcher(),
    reply=render_brief,
    policy=Policy(rule="none"),
)
