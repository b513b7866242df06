"""Design D, Everruns: every tool is listed by name and description; a search loads its schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated, Any

from pydantic import Field

from ...catalog.result import Result
from ...catalog.tool import Tool
from ..matcher import SearchDomain, ToolMatches, load_strong, rank_by_score
from ..profile import (
    ALL_SURFACES,
    DisclosureLimits,
    HintTemplate,
    Profile,
    metatool,
    object_schema,
)
from ..prompt_texts import stub_text
from ..prompts import Prompt, PromptContext
from ..reply import ToolSearchResult, json_result
from ..scope import Policy, ToolSelector


@dataclass(frozen=True, slots=True)
class WordOverlapMatcher:
    """Counts the words of the query that occur in a name or description.

    With `is_weighted` a word in the name counts three times, a tool whose name is the whole query
    comes first, and hits below half of the best score are dropped. That is the ranking of a later
    version of the design, for profiles where every hit stays loaded.
    """

    is_weighted: bool = False

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        """Tools by the number of words they contain; the first tools for a query without words."""
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
        # 100 is more than any number of words can add up to.
        return float(score + (100 if _trim_word(query) == name else 0))


def _trim_word(word: str) -> str:
    """The word in lower case, without punctuation at both ends."""
    start, end = 0, len(word)
    while start < end and not word[start].isalnum():
        start += 1
    while end > start and not word[end - 1].isalnum():
        end -= 1
    return word[start:end].lower()


def render_schemas(found: ToolSearchResult) -> Result:
    """The found tools with their schemas; without a match, the names that exist."""
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


def stub_prompt(context: PromptContext) -> Prompt:
    """One paragraph: names are visible, schemas are hidden, and how to get them."""
    return Prompt(stub_text(context.search))


MIN_TOOLS_TO_HIDE = 15
"""With fewer tools than this, including the search tool, nothing is hidden."""

_SEARCH = metatool(
    "search",
    "tool_search",
    "Search the available tools by keyword and load their parameter schemas. Returns names, "
    "descriptions and JSON schemas of the matches. Call it before using a tool whose parameters "
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
    # Below the threshold the search and the prompt are there too: the design always adds them.
    surfaces=("direct", *ALL_SURFACES),
    title="Tool Search",
)

EVERRUNS = Profile(
    name="everruns",
    summary="Names and descriptions of all tools; schemas are hidden until they are searched for.",
    metatools=(_SEARCH,),
    hiding="stub",
    policy=Policy(rule="all", threshold=MIN_TOOLS_TO_HIDE, counts_search=True),
    matcher=WordOverlapMatcher(),
    # In the first version of the design a schema stayed a stub after a search, so clients that
    # validate strictly could not send arguments. A later version loads what a search found.
    loading=load_strong,
    reply=render_schemas,
    prompt=stub_prompt,
    limits=DisclosureLimits(hits=12, max_hits=12),
    no_match_hint=HintTemplate(
        parts=("names", "message"), message="No tools matched the query. Try another keyword."
    ),
    on_empty="browse",
    searches_empty_catalog=True,
    on_unloaded="execute",
    is_strict=False,
    stub_hint="Parameters are hidden to save context. Call {search} with the query "
    '"{name}" to load them before using this tool.',
)


def everruns_profile(
    *,
    # Strict, so that neither true nor "20" passes for a number.
    threshold: Annotated[int, Field(strict=True, ge=0)] = MIN_TOOLS_TO_HIDE,
    never_defer: Sequence[str] = (),
) -> Profile:
    """The profile with its options.

    From `threshold` tools on, the search tool included, schemas are hidden; `never_defer` names
    tools that keep theirs.
    """
    pinned = ToolSelector(names=tuple(never_defer))
    return replace(EVERRUNS, policy=replace(EVERRUNS.policy, threshold=threshold, pinned=pinned))
