"""Design B, mcpagent: `search_tools` finds tools by regular expression, `add_tool` loads them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import StrictBool
from rapidfuzz import fuzz

from ...catalog.filters import Filter
from ...catalog.result import Result
from ...catalog.sanitization import clean_line
from ...catalog.tool import Tool, normalise_name
from ...errors import ConfigError, QueryError, ToolscoutError
from ...search.pattern import Pattern
from ..api_spec import index_prompt
from ..matcher import SearchDomain, ToolMatches, rank_by_score
from ..profile import DisclosureLimits, HintTemplate, Profile, metatool, object_schema
from ..prompts import Prompt, PromptContext, PromptRenderer
from ..reply import ToolSearchResult, json_result, plain_error
from ..scope import Policy, ToolSelector

INVALID_PATTERN = "invalid regex pattern"
_WORD = re.compile(r"\w+")
# The similarity, out of 100, of a misspelling: `wether` finds `get_weather` (92), noise nothing.
_MIN_RATIO = 75.0


@dataclass(frozen=True, slots=True)
class RegexMatcher:
    """Searches names and descriptions for a regular expression, ignoring case.

    Hits keep the catalog's order. Without a hit, at most `fuzzy_limit` tools are found by
    similarity: the query as a literal, then word by word, then by spelling.
    """

    fuzzy_limit: int = 5
    on_invalid: Literal["error", "literal"] = "error"

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        """Every tool that the pattern matches, else the most similar ones."""
        tools = domain.tools
        try:
            pattern = _compile_pattern(query)
            places = pattern.find_tools((t.name, t.description) for t in tools)
            found = tuple(tools[i] for i in places[:limit])
        except QueryError:
            if self.on_invalid == "error":
                raise
            found = ()
        if found:
            return ToolMatches(tools=found, scores=(1.0,) * len(found))
        scored = [(s, t) for t in tools if (s := fuzzy_score(query, t))]
        loose = rank_by_score(scored, limit=self.fuzzy_limit)
        return replace(loose, is_fuzzy=bool(loose.tools))


def _compile_pattern(query: str) -> Pattern:
    try:
        return Pattern.of(query)
    except QueryError as error:
        cause = error.message.removeprefix("Invalid regex pattern: ")
        # The design's own wording, which `_render_error` recognises.
        message = f"{INVALID_PATTERN}: {cause}"
        raise QueryError(message, position=error.position, hint=error.hint) from error


def fuzzy_score(query: str, tool: Tool) -> float:
    """The similarity of a query and a tool, from 0 to 3."""
    # Three tiers, as in the published design: the query as a literal (2.5 to 3), words (1 to 2),
    # spelling (below 1). In each, a match in the name counts more than one in the description.
    text = query.strip().lower()
    if not text:
        return 0.0
    if text in tool.name.lower() or text in tool.description.lower():
        return 3.0 if text in tool.name.lower() else 2.5
    words = _split_words(text)
    names, others = _split_words(tool.name), _split_words(tool.description)
    if not words:
        return 0.0
    by_word = [max(_best_word_score(w, names), 0.6 * _best_word_score(w, others)) for w in words]
    # An abbreviation alone (0.5) is too weak; beside a word that matches it counts.
    if any(score >= 0.6 for score in by_word):
        return 1.0 + sum(by_word) / len(words)
    by_spelling = [max(_best_ratio(w, names), 0.9 * _best_ratio(w, others)) for w in words]
    mean = sum(by_spelling) / len(words)
    return mean / 100 if mean >= _MIN_RATIO else 0.0


def _split_words(text: str) -> list[str]:
    return [w for part in _WORD.findall(text) for w in normalise_name(part).split("_") if w]


def _best_word_score(word: str, others: list[str]) -> float:
    return max((_word_score(word, other) for other in others), default=0.0)


def _word_score(word: str, other: str) -> float:
    """1 for the same word, 0.8 if one starts with the other, 0.5 for an abbreviation."""
    if word == other:
        return 1.0
    short, long = sorted((word, other), key=len)
    # Below three letters, or with another first letter, nearly everything would match.
    if len(short) < 3 or short[0] != long[0]:
        return 0.0
    if long.startswith(short):
        return 0.8
    # Subsequence test: `in` consumes the iterator, so the letters must occur in this order.
    letters = iter(long)
    return 0.5 if short == word and all(letter in letters for letter in short) else 0.0


def _best_ratio(word: str, others: list[str]) -> float:
    return max((fuzz.ratio(word, other) for other in others), default=0.0)


def render_brief(found: ToolSearchResult) -> Result:
    """The number of hits, each with name and description, and what to do next."""
    answer: dict[str, Any] = {
        "found": len(found.tools),
        "tools": [_tool_row(t) for t in found.tools],
    }
    if found.is_fuzzy:
        answer["fuzzy_used"] = True
    answer["message"] = _message(found) if found.tools else found.hint.message
    return json_result(answer, indent=2)


def _tool_row(tool: Tool) -> dict[str, str]:
    row = {"name": tool.name, "description": tool.description}
    return {**row, "server": tool.server} if tool.server else row


def _message(found: ToolSearchResult) -> str:
    how = "No tool matched the pattern; these are similar. " if found.is_fuzzy else "Tools found. "
    shared = _ambiguous_name(found.tools)
    twice = f"{shared} is on several servers: use the full name. " if shared else ""
    return f"{how}{twice}Load the ones you need with 'add_tool'."


def _ambiguous_name(tools: tuple[Tool, ...]) -> str:
    """A name that tools of several servers share, if there is one."""
    seen: dict[str, str] = {}
    for tool in tools:
        if seen.setdefault(tool.local_name, tool.server) != tool.server:
            return tool.local_name
    return ""


def workflow_prompt(*, categories: tuple[str, ...] = (), is_fuzzy: bool = True) -> PromptRenderer:
    """A prompt with the steps to search, add and use tools, and the categories of tools.

    Without `categories` servers are listed; `is_fuzzy` says that the matcher finds similar tools.
    """

    def render(context: PromptContext) -> Prompt:
        servers = dict.fromkeys(t.server for t in context.tools_out_of_view if t.server)
        lines = "\n".join(f"- {clean_line(kind, cap=200)}" for kind in categories or servers)
        fuzzy = " If the pattern finds nothing, the 5 most similar tools are returned."
        text = (
            "<tool_search>\n## Tool search\n"
            "There is a large catalog of tools, and most of them are not loaded.\n"
            "1. Understand what the user needs.\n"
            "2. Call search_tools with a regex pattern over names and descriptions."
            f"{fuzzy if is_fuzzy else ''}\n"
            "3. Review the tools it returns.\n"
            '4. Call add_tool(tool_names=["..."]) with the ones you need.\n'
            "5. Use the tools you added to do the task.\n"
        )
        if lines:
            text += f"\nTool categories:\n{lines}\n"
        return Prompt(f"{text}</tool_search>")

    return render


_SEARCH = metatool(
    "search",
    "search_tools",
    "Search the available tools by name or description. Add the tools it returns with add_tool "
    "before you use them.",
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
    "List the names of all available tools, without descriptions; for details, call search_tools "
    "with a name.",
    object_schema(),
)

# The design's repository has it, its published tool list does not: answered, but not listed.
_REMOVE = metatool(
    "unload",
    "remove_tool",
    "Take tools you no longer need out of those you can use.",
    object_schema("tool_names", tool_names={"type": "array", "items": {"type": "string"}}),
    surfaces=(),
)


def _render_error(error: ToolscoutError) -> Result:
    """An invalid pattern as JSON, like other replies of this profile; other errors as text."""
    if isinstance(error, QueryError) and error.message.startswith(INVALID_PATTERN):
        return replace(json_result({"error": error.message}), is_error=True)
    return plain_error(error)


# Control tools of the program, and tools that ask a person: never deferred, never filtered.
SPECIAL_CATEGORIES = ("structured_output", "human")

MCPAGENT = Profile(
    name="mcpagent",
    summary="Patterns find tools and a second call adds them; no tool is shown before.",
    metatools=(_SEARCH, _ADD, _SHOW, _REMOVE),
    policy=Policy(rule="all", pinned=ToolSelector(categories=SPECIAL_CATEGORIES)),
    output_tools="all",
    matcher=RegexMatcher(),
    reply=render_brief,
    render_error=_render_error,
    prompt=workflow_prompt(),
    limits=DisclosureLimits(hits=None, max_hits=None),
    no_match_hint=HintTemplate(message="No tools found that match the pattern."),
    on_empty="error",
    on_unloaded="execute",
    is_strict=False,
    # From the design's repository: all three names mean the tool that writes workspace files.
    aliases=(
        ("write_workspace_file", "update_workspace_file"),
        ("create_workspace_file", "update_workspace_file"),
    ),
)


def mcpagent_profile(
    *,
    pre_discovered: tuple[str, ...] = (),
    selected_servers: tuple[str, ...] = (),
    selected_tools: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    output_tools: Literal["all", "unified"] = "all",
    code_execution: StrictBool = False,
) -> Profile:
    """The profile with its options.

    `pre_discovered` tools are in view from the start. Of the others, only those that
    `selected_servers` or `selected_tools` (`server:tool`, `server:*`) select exist; without both,
    all do. `categories` are lines of the instructions in place of the servers. `output_tools`
    says whether the tools for large results are shown under all three names. With
    `code_execution` the model finds tools in OpenAPI documents, and calls them from programs.
    """
    selection = Filter(servers=selected_servers, tools=selected_tools)
    for problem in selection.warnings:
        raise ConfigError(f"selected_tools: {problem.where} names no tool.", hint=problem.remedy)
    pinned = ToolSelector(names=pre_discovered, categories=SPECIAL_CATEGORIES)
    if code_execution:
        return replace(
            MCPAGENT,
            policy=replace(MCPAGENT.policy, pinned=pinned),
            selection=selection,
            metatools=(),
            prompt=index_prompt,
            output_tools="as set",
            runs_code=True,
            gives_api_specs=True,
        )
    return replace(
        MCPAGENT,
        policy=replace(MCPAGENT.policy, pinned=pinned),
        selection=selection,
        prompt=workflow_prompt(categories=categories),
        output_tools=output_tools,
    )
