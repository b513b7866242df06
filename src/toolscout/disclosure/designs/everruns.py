"""Design D, Everruns: every tool named and described, its schema a stub until searched for."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

from ...catalog.result import Result
from ...catalog.tool import Tool
from ..matcher import SearchDomain, ToolMatches, load_strong, rank_by_score
from ..metatools import EVERYWHERE, metatool, object_schema
from ..profile import DisclosureLimits, HintTemplate, Profile
from ..prompts import stub_prompt
from ..reply import ToolSearchResult, json_result
from ..scope import Policy


@dataclass(frozen=True, slots=True)
class WordOverlapMatcher:
    """Counts the words of the query that a name or description contains.

    `is_weighted` counts a word in the name three times, puts a tool whose name is the whole
    query far in front, and drops what scores less than half of the best: for profiles where a
    hit stays loaded, so that weak ones must not.
    """

    is_weighted: bool = False

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        """Tools by the number of words they contain; with no words at all, the first ones."""
        terms = [t for word in query.split() if (t := _trim_word(word))]
        if not terms:
            first = domain.tools[:limit]
            return ToolMatches(tools=first, scores=(0.0,) * len(first))
        scored = [(s, t) for t in domain.tools if (s := self._score(t, terms, query))]
        if self.is_weighted and scored:
            floor = ceil(max(s for s, _ in scored) / 2)
            scored = [(s, t) for s, t in scored if s >= floor]
        return rank_by_score(scored, limit=limit)

    def _score(self, tool: Tool, terms: list[str], query: str) -> float:
        name, text = tool.name.lower(), tool.description.lower()
        if not self.is_weighted:
            whole = f"{name} {text}"
            return float(sum(t in whole for t in terms))
        score = sum(3 if t in name else 1 if t in text else 0 for t in terms)
        return float(score + (100 if _trim_word(query) == name else 0))


def _trim_word(word: str) -> str:
    """Without what is neither letter nor digit at both ends, in lower case."""
    start, end = 0, len(word)
    while start < end and not word[start].isalnum():
        start += 1
    while end > start and not word[end - 1].isalnum():
        end -= 1
    return word[start:end].lower()


def render_schemas(found: ToolSearchResult) -> Result:
    """The tools as they are called; with none, the names that exist."""
    answer: dict[str, Any] = {
        "query": found.query.strip(),
        "tools": [
            {"name": t.name, "description": t.description, "parameters": t.parameters.value}
            for t in found.tools
        ],
    }
    if not found.tools:
        answer["message"] = found.hint.message
        answer["available_tools"] = [*found.hint.names]
        if found.hint.unnamed:
            answer["more_tools"] = found.hint.unnamed
    elif found.loaded:
        answer["loaded"] = [*found.loaded]
        answer["message"] = "The schemas of these tools are in your tool list from the next step."
    return json_result(answer)


MIN_TOOLS_TO_HIDE = 15
"""With fewer tools than this, the search tool included, nothing is hidden."""

_SEARCH = metatool(
    "search",
    "tool_search",
    "Search the available tools by keyword and load their parameter schemas. Returns names, "
    "descriptions and JSON schemas of what matches. Call it before using a tool whose parameters "
    "you have not seen.",
    object_schema(
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
    policy=Policy(rule="all", threshold=MIN_TOOLS_TO_HIDE, counts_search=True),
    matcher=WordOverlapMatcher(),
    loading=load_strong,
    reply=render_schemas,
    prompt=stub_prompt,
    limits=DisclosureLimits(hits=12, most=12),
    advice=HintTemplate(
        parts=("names", "message"), message="No tools matched the query. Try another keyword."
    ),
    on_empty="browse",
    on_unloaded="execute",
    is_strict=False,
    stub_hint="Parameters are hidden to save context. Call {search} with the query "
    '"{name}" to load them before using this tool.',
)
