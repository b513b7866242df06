"""Design E, CMS: one search tool; found tools are loaded and come with their rules of use.

The design is that of a content management agent. Its tools belong to categories (pages, images,
navigation), each with rules that the reply delivers together with the tools.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field, StrictBool

from ...catalog.result import Result
from ...config import PathList
from ...errors import ConfigError
from ..matcher import BandedMatcher, load_all
from ..profile import DisclosureLimits, HintTemplate, Profile, metatool, object_schema
from ..prompt_texts import discovery_text
from ..prompts import Prompt, PromptContext
from ..reply import ToolSearchResult, json_result
from ..scope import Policy


def render_rules(found: ToolSearchResult) -> Result:
    """The found tools, the rules for using them, and what to do next."""
    next_step = "These tools are now available. Search again if you need more."
    # Such as that vectors are not ready, so that the same search may find more later.
    nothing = " ".join((found.hint.message, *found.notes))
    return json_result(
        {
            "tools": [{"name": t.name, "description": t.description} for t in found.tools],
            "rules": found.rules,
            "instruction": next_step if found.tools else nothing,
        }
    )


def discovery_prompt(context: PromptContext) -> Prompt:
    """A short section in tags: describe the need, rules are included, or answer directly."""
    return Prompt(discovery_text(context.search))


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
    matcher=BandedMatcher(),
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
    # A hit brings the tools that are often used with it, up to the limit.
    expands_related=True,
    remembers=True,
)

Confidence = Annotated[float, Field(ge=0, le=1)]
"""A probability, from 0 to 1."""


def cms_profile(
    *,
    rules: PathList = (),
    memory: StrictBool = True,
    words_only: Confidence = 0.8,
    vectors_only: Confidence = 0.3,
    min_confidence: Confidence = 0.15,
    force_search: StrictBool = False,
) -> Profile:
    """The profile with its options.

    `rules` are folders with one Markdown file per category; `memory` remembers entities and used
    tools across turns. Above the confidence `words_only` keyword search decides alone, and at
    `vectors_only` or below vectors do; below `min_confidence` nothing is found. `force_search`
    makes the model search before it answers.
    """
    if not vectors_only <= words_only:
        raise ConfigError(
            f"vectors_only ({vectors_only}) is above words_only ({words_only}).",
            hint="Keywords decide alone above words_only, vectors alone up to vectors_only: "
            "set vectors_only to at most words_only.",
        )
    return replace(
        CMS,
        matcher=BandedMatcher(words_only, vectors_only, min_confidence),
        forces_search=force_search,
        remembers=memory,
        rules=rules,
    )
