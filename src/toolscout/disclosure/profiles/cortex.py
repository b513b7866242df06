"""Names in a slot, schemas by `ToolSearch`: select, exact name, prefix, or words."""

from __future__ import annotations

from ..loading import everything
from ..matching.forms import Forms
from ..metatools import metatool, parameters
from ..policy import Policy
from ..profile import Advice, Limits, Profile
from ..prompts import slotted
from ..replies.blocks import blocks

_SEARCH = metatool(
    "search",
    "ToolSearch",
    "Load the schemas of tools. Some tools are not loaded at first; their names are in the "
    '"Available Tools" section, their parameters are not. Call this first to load the ones you '
    "need; they are callable on the next turn.\n\n"
    'When you know the names, prefer "select:Name1,Name2". Use keywords to find tools by what '
    "they do.",
    parameters(
        "query",
        query={
            "type": "string",
            "description": "What to load:\n"
            '- "select:NameA,NameB": these tools, by exact name (best when you know them)\n'
            '- "exact_tool_name": that one tool\n'
            '- "prefix", such as "mcp__obsidian": all tools whose names begin so\n'
            '- "keyword other": keyword search over names and descriptions\n'
            '- "+word": a keyword that must occur, as in "+slack send"',
        },
        max_results={
            "type": "number",
            "description": "The most tools that a keyword or prefix loads; ignored for select:.",
            "default": 5,
        },
    ),
)

CORTEX = Profile(
    name="cortex",
    summary="Names are listed in a slot; a search loads what it finds.",
    metatools=(_SEARCH,),
    policy=Policy(rule="served"),
    matcher=Forms(),
    searches_waiting_only=True,
    loading=everything,
    reply=blocks,
    prompt=slotted,
    limits=Limits(hits=5, most=None, least=0),
    advice=Advice(parts=()),
    on_empty="none",
    on_unloaded="reject",
)
