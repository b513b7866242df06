"""All tools registered, only the core ones described; `searchTools` tells about the others."""

from __future__ import annotations

from ..matching.substring import Substring
from ..metatools import metatool, parameters
from ..policy import Policy
from ..profile import Advice, Limits, Profile
from ..prompts import catalogued
from ..replies.entries import entries

_SEARCH = metatool(
    "search",
    "searchTools",
    "Search the other tools by name, category or capability. Returns their descriptions, "
    "parameters and usage. Use it for what your core tools do not cover, such as browsing the web "
    "or running code.",
    parameters(
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
    matcher=Substring(),
    searches_waiting_only=True,
    reply=entries,
    prompt=catalogued(),
    limits=Limits(hits=None, most=None),
    advice=Advice(
        parts=("categories", "message"), message="No tool matched. Try one of the categories."
    ),
    on_empty="all",
    on_unloaded="execute",
)
