"""Every tool named and described, its schema a stub until `tool_search` shows it."""

from __future__ import annotations

from ..loading import strong
from ..matching.overlap import Overlap
from ..metatools import EVERYWHERE, metatool, parameters
from ..policy import Policy
from ..profile import Advice, Limits, Profile
from ..prompts import noted
from ..replies.schemas import schemas

THRESHOLD = 15
"""With fewer tools than this, the search tool included, nothing is hidden."""

_SEARCH = metatool(
    "search",
    "tool_search",
    "Search the available tools by keyword and load their parameter schemas. Returns names, "
    "descriptions and JSON schemas of what matches. Call it before using a tool whose parameters "
    "you have not seen.",
    parameters(
        "query",
        closed=True,
        query={
            "type": "string",
            "description": "Keywords for the tool or capability you need, such as 'read file', "
            "'run sql' or 'send message'.",
        },
    ),
    shown=("direct", *EVERYWHERE),
    title="Tool Search",
)

EVERRUNS = Profile(
    name="everruns",
    summary="Names and descriptions of all tools; schemas are hidden until they are searched for.",
    metatools=(_SEARCH,),
    hiding="stub",
    policy=Policy(rule="all", threshold=THRESHOLD, counts_search=True),
    matcher=Overlap(),
    loading=strong,
    reply=schemas,
    prompt=noted,
    limits=Limits(hits=12, most=12),
    advice=Advice(
        parts=("names", "message"), message="No tools matched the query. Try another keyword."
    ),
    on_empty="browse",
    on_unloaded="execute",
    is_strict=False,
    stub_hint="Parameters are hidden to save context. Call {search} with the query "
    '"{name}" to load them before using this tool.',
)
