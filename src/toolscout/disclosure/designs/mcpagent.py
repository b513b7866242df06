"""Design B, mcpagent: search by pattern, add by name."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from rapidfuzz import fuzz

from ...catalog.names import normalise_name
from ...catalog.result import Result
from ...catalog.tool import Tool
from ...errors import QueryError, ToolscoutError
from ...search.pattern import Haystack, Pattern
from ..matcher import SearchDomain, ToolMatches, rank_by_score
from ..metatools import metatool, object_schema
from ..profile import DisclosureLimits, HintTemplate, Profile
from ..prompts import workflow_prompt
from ..reply import ToolSearchResult, json_result, plain_error
from ..scope import Policy, ToolSelector

INVALID_PATTERN = "invalid regex pattern"
_WORD = re.compile(r"\w+")
_MIN_RATIO = 75.0
"""The least likeness, of 100, at which a word passes for a misspelling of another."""


@dataclass(frozen=True, slots=True)
class RegexMatcher:
    """Searches names and descriptions for a pattern anywhere, whatever the case.

    Hits keep the catalog's order and are not cut. With no hit, at most `fuzzy_limit` tools come
    by likeness: the query as a literal, then word by word, then by similar spelling.
    """

    fuzzy_limit: int = 5
    on_invalid: Literal["error", "literal"] = "error"

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        """Everything the pattern hits, else what is most like it."""
        try:
            found = _match_regex(query, domain.tools)[:limit]
        except QueryError:
            if self.on_invalid == "error":
                raise
            found = ()
        if found:
            return ToolMatches(tools=found, scores=(1.0,) * len(found))
        scored = [(s, t) for t in domain.tools if (s := fuzzy_score(query, t))]
        loose = rank_by_score(scored, limit=self.fuzzy_limit)
        return replace(loose, is_fuzzy=bool(loose.tools))


def _match_regex(query: str, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    haystack = Haystack.of((t.name, t.description) for t in tools)
    return tuple(tools[i] for i in haystack.find_matches(_compile_pattern(query)))


def _compile_pattern(query: str) -> Pattern:
    try:
        return Pattern.of(query)
    except QueryError as error:
        cause = error.message.removeprefix("Invalid regex pattern: ")
        said = f"{INVALID_PATTERN}: {cause}"
        raise QueryError(said, position=error.position, hint=error.hint) from error


def fuzzy_score(query: str, tool: Tool) -> float:
    """How alike query and tool are: 3 for a literal part, up to 2 by words, 1 by letters."""
    text = query.strip().lower()
    if not text:
        return 0.0
    if text in tool.name.lower() or text in tool.description.lower():
        return 3.0 if text in tool.name.lower() else 2.5
    wanted = _split_words(text)
    names, others = _split_words(tool.name), _split_words(tool.description)
    if not wanted:
        return 0.0
    by_words = [max(_best_word_score(w, names), 0.6 * _best_word_score(w, others)) for w in wanted]
    if any(score >= 0.6 for score in by_words):
        return 1.0 + sum(by_words) / len(wanted)
    by_letters = [max(_best_ratio(w, names), 0.9 * _best_ratio(w, others)) for w in wanted]
    mean = sum(by_letters) / len(wanted)
    return mean / 100 if mean >= _MIN_RATIO else 0.0


def _split_words(text: str) -> list[str]:
    return [w for part in _WORD.findall(text) for w in normalise_name(part).split("_") if w]


def _best_word_score(word: str, others: list[str]) -> float:
    return max((_word_score(word, other) for other in others), default=0.0)


def _word_score(word: str, other: str) -> float:
    """The same word, one the beginning of the other, or an abbreviation of it."""
    if word == other:
        return 1.0
    short, long = sorted((word, other), key=len)
    if len(short) < 3 or short[0] != long[0]:
        return 0.0
    if long.startswith(short):
        return 0.8
    letters = iter(long)
    return 0.5 if short == word and all(letter in letters for letter in short) else 0.0


def _best_ratio(word: str, others: list[str]) -> float:
    return max((fuzz.ratio(word, other) for other in others), default=0.0)


def render_brief(found: ToolSearchResult) -> Result:
    """How many were found, each by name and description, and what to do next."""
    answer: dict[str, Any] = {
        "found": len(found.tools),
        "tools": [_tool_row(t) for t in found.tools],
    }
    if found.is_fuzzy:
        answer["fuzzy_used"] = True
    answer["message"] = _message(found) if found.tools else found.hint.message
    return json_result(answer, indent=2)


def _tool_row(tool: Tool) -> dict[str, str]:
    line = {"name": tool.name, "description": tool.description}
    return {**line, "server": tool.server} if tool.server else line


def _message(found: ToolSearchResult) -> str:
    how = "No tool matched the pattern; these are alike. " if found.is_fuzzy else "Tools found. "
    shared = _ambiguous_name(found.tools)
    twice = f"{shared} is on several servers: its full name says which. " if shared else ""
    return f"{how}{twice}Load the ones you need with 'add_tool'."


def _ambiguous_name(tools: tuple[Tool, ...]) -> str:
    """A name that several servers have, if there is one."""
    seen: dict[str, str] = {}
    for tool in tools:
        if seen.setdefault(tool.local_name, tool.server) != tool.server:
            return tool.local_name
    return ""


_SEARCH = metatool(
    "search",
    "search_tools",
    "Search the available tools by name or description. What it returns must be added with "
    "add_tool before it can be used.",
    object_schema(
        "query",
        query={
            "type": "string",
            "description": "A regex pattern over names and descriptions: plain text (weather), a "
            "sequence (database.*query), alternatives (file|folder), a beginning (^get_).",
        },
    ),
)

_ADD = metatool(
    "load",
    "add_tool",
    "Add one or more tools to those you can use, after finding them with search_tools.",
    object_schema(
        "tool_names",
        tool_names={
            "type": "array",
            "items": {"type": "string"},
            "description": "The exact names, for example ['read_file', 'weather_get'].",
        },
    ),
)

_SHOW = metatool(
    "list",
    "show_all_tools",
    "List the names of all available tools, without descriptions; search_tools with a name tells "
    "more.",
    object_schema(),
)

_REMOVE = metatool(
    "unload",
    "remove_tool",
    "Take tools you no longer need out of those you can use.",
    object_schema("tool_names", tool_names={"type": "array", "items": {"type": "string"}}),
    shown=(),
)


def _render_error(error: ToolscoutError) -> Result:
    """A bad pattern as JSON, like every other answer to a search; the rest in words."""
    if isinstance(error, QueryError) and error.message.startswith(INVALID_PATTERN):
        said = json_result({"error": error.message})
        return Result(content=said.content, structured=said.structured, is_error=True)
    return plain_error(error)


MCPAGENT = Profile(
    name="mcpagent",
    summary="Patterns find tools, a second call adds them; nothing is shown before.",
    metatools=(_SEARCH, _ADD, _SHOW, _REMOVE),
    policy=Policy(rule="all", pinned=ToolSelector(categories=("structured_output", "human"))),
    matcher=RegexMatcher(),
    reply=render_brief,
    render_error=_render_error,
    prompt=workflow_prompt(),
    limits=DisclosureLimits(hits=None, most=None),
    advice=HintTemplate(message="No tools found that match the pattern."),
    on_empty="error",
    on_unloaded="execute",
    is_strict=False,
    aliases=(
        ("write_workspace_file", "update_workspace_file"),
        ("create_workspace_file", "update_workspace_file"),
    ),
)
