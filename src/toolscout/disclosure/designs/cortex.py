"""Design C, Cortex: deferred tools are named in a prompt slot; `ToolSearch` loads their schemas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import StrictBool

from ...catalog.result import Result
from ...catalog.tool import Tool
from ...errors import ConfigError
from ..matcher import SearchDomain, ToolMatches, load_all, rank_by_score
from ..profile import DisclosureLimits, HintTemplate, Profile, metatool, object_schema
from ..prompts import Prompt, PromptContext, no_prompt
from ..reply import ToolSearchResult, text_result
from ..scope import Policy, ToolSelector

AVAILABLE_TOOLS_SLOT = "_available_tools"
"""The slot that lists the tools that can be loaded."""

_NAME_SEPARATOR = re.compile(r"__|_")
_SELECT = "select:"


@dataclass(frozen=True, slots=True)
class QueryFormMatcher:
    """Reads a query as a selection, a name, a prefix or keywords, the first form that fits."""

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        """Every name of a `select:`; for the other forms at most `limit` tools."""
        text = query.strip()
        if not text:
            return ToolMatches()
        if text.startswith(_SELECT):
            return _match_select(text.removeprefix(_SELECT), domain)
        # Names and prefixes are case-sensitive, keywords are not, as in the published design.
        if len(text.split()) == 1:
            if _is_never_deferred(text, domain):
                # Missing among the deferred tools; the search reports it as already in view.
                return ToolMatches(missing=(text,))
            found = _match_name(text, domain, limit=limit)
            if found:
                return ToolMatches(tools=found, scores=(1.0,) * len(found))
        return _match_words(text, domain, limit=limit)


def _match_select(text: str, domain: SearchDomain) -> ToolMatches:
    names = dict.fromkeys(name for part in text.split(",") if (name := part.strip()))
    known = {t.name: t for t in domain.tools}
    found = tuple(known[n] for n in names if n in known)
    missing = tuple(n for n in names if n not in known)
    return ToolMatches(tools=found, scores=(1.0,) * len(found), missing=missing)


def _is_never_deferred(name: str, domain: SearchDomain) -> bool:
    """Whether a tool of this name exists that a search does not need to load."""
    exists = name in domain.shown or domain.scope.get(name) is not None
    return exists and all(t.name != name for t in domain.tools)


def _match_name(text: str, domain: SearchDomain, *, limit: int | None) -> tuple[Tool, ...]:
    """The tool with that name, else those whose names start with it."""
    exact = tuple(t for t in domain.tools if t.name == text)
    if exact:
        return exact
    matches = sorted((t for t in domain.tools if t.name.startswith(text)), key=lambda t: t.name)
    # In the published design loaded tools use up places of the limit, so that asking again with
    # the same prefix loads nothing new. Here they do not count.
    is_loaded = domain.scope.is_loaded
    new = {t.name for t in [t for t in matches if not is_loaded(t.name)][:limit]}
    return tuple(t for t in matches if is_loaded(t.name) or t.name in new)


def _match_words(text: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
    terms: list[str] = []
    required: set[str] = set()
    for token in text.lower().split():
        if token.startswith("+") and len(token) > 1:
            required.add(token[1:])
            terms.append(token[1:])
        else:
            terms.append(token)
    scored: list[tuple[float, Tool]] = []
    for tool in domain.tools:
        name, description = tool.name.lower(), tool.description.lower()
        if all(r in name or r in description for r in required):
            parts = _NAME_SEPARATOR.split(name)
            score = sum(
                _score_term(t, parts, name, description, has_server=bool(tool.server))
                for t in terms
            )
            scored.append((float(score), tool))
    return rank_by_score([pair for pair in scored if pair[0] > 0], limit=limit)


def _score_term(
    term: str, parts: list[str], name: str, description: str, *, has_server: bool
) -> int:
    """The score of one keyword: part of the name, then substring of it, then description."""
    # The weights are those of the design's own registry.
    if term in parts:
        return 12 if has_server else 10
    if any(term in part for part in parts):
        return 6 if has_server else 5
    # Only a term with an underscore can be in the name but in none of its parts.
    if term in name:
        return 3
    return 2 if term in description else 0


LOADED_HEADING = "Loaded; callable on the next turn:"
"""The line above the tools that a search loaded; rebuild.py reads it back."""


def render_blocks(found: ToolSearchResult) -> Result:
    """Blocks of loaded, already loaded and unknown names, separated by blank lines."""
    parts = [
        _block(LOADED_HEADING, found.loaded),
        _block("Already loaded, no action needed:", found.already),
        _block("Not in the deferred tool list:", found.missing),
    ]
    if not (found.tools or found.already or found.missing):
        parts = [f'No tools matched the query: "{found.query}"']
        if found.total_deferred:
            parts.append(
                f"{found.total_deferred} more tools can be loaded; their names are in the"
                ' "Available Tools" section.'
            )
    details = {
        "query": found.query,
        "loaded": [*found.loaded],
        "alreadyAvailable": [*found.already],
        "notFound": [*found.missing],
        "totalDeferred": found.total_deferred,
    }
    return text_result("\n\n".join(p for p in parts if p), details)


def _block(heading: str, names: tuple[str, ...]) -> str:
    return "\n".join([heading, *(f"- {n}" for n in names)]) if names else ""


def slot_prompt(context: PromptContext) -> Prompt:
    """The names that can be loaded, sorted, in a slot; an empty slot if there are none."""
    names = sorted(t.name for t in context.tools_out_of_view)
    text = (
        "# Available Tools\n"
        f"The schemas of these tools are not loaded. Load them with {context.search} first.\n"
        "Calling one directly, before it is loaded, fails.\n" + "\n".join(f"- {n}" for n in names)
    )
    return Prompt(slots=((AVAILABLE_TOOLS_SLOT, text if names else ""),))


@dataclass(frozen=True, slots=True)
class Slots:
    """Named messages at the start of a conversation, the list of available tools first.

    Make one with `Slots.of("memory", "plan")`. Before each request, store the slots of the view
    with `slots = slots.write_all(view.slots)`, write your own with `write`, and put `messages()`
    in front of the conversation. A write of the same text changes nothing, so the cached prompt
    stays valid; `writes` counts the writes that changed something.
    """

    names: tuple[str, ...]
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    writes: int = 0

    @classmethod
    def of(cls, *names: str) -> Slots:
        """Empty slots with these names, after the one for available tools."""
        order = (AVAILABLE_TOOLS_SLOT, *names)
        duplicates = sorted({n for n in order if order.count(n) > 1})
        if duplicates:
            raise ConfigError(
                f"Slots must have different names; given twice: {', '.join(duplicates)}.",
                hint=f"{AVAILABLE_TOOLS_SLOT} is always there.",
            )
        return cls(order)

    def write(self, name: str, text: str) -> Slots:
        """Set the text of a slot; the same text returns the same value."""
        if name not in self.names:
            raise ConfigError(
                f"There is no slot {name!r}.", hint=f"The slots are: {', '.join(self.names)}."
            )
        if self.texts.get(name, "") == text:
            return self
        return replace(self, texts={**self.texts, name: text}, writes=self.writes + 1)

    def write_all(self, slots: Iterable[tuple[str, str]]) -> Slots:
        """Set several slots, such as those of a view."""
        updated = self
        for name, text in slots:
            updated = updated.write(name, text)
        return updated

    def messages(self) -> list[dict[str, str]]:
        """The filled slots as user messages, to put before the conversation."""
        filled = ((n, self.texts.get(n, "")) for n in self.names)
        return [{"role": "user", "content": text} for _, text in filled if text]


_SEARCH = metatool(
    "search",
    "ToolSearch",
    "Load the schemas of tools. Some tools are not loaded at first; their names are in the "
    '"Available Tools" section, their parameters are not. Call this first to load the ones you '
    "need; they are callable on the next turn.\n\n"
    'When you know the names, prefer "select:Name1,Name2". Use keywords to find tools by what '
    "they do.",
    object_schema(
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
    matcher=QueryFormMatcher(),
    searches_deferred_only=True,
    loading=load_all,
    reply=render_blocks,
    prompt=slot_prompt,
    limits=DisclosureLimits(hits=5, max_hits=None, min_hits=0),
    no_match_hint=HintTemplate(parts=()),
    on_empty="none",
    on_unloaded="reject",
    needs_deferred_tools=True,
    runs_loaded_next_step=True,
)


def cortex_profile(
    *,
    enabled: StrictBool = True,
    always_load: Sequence[str] = (),
    should_defer: Sequence[str] = (),
    defer_mcp: StrictBool = True,
) -> Profile:
    """The profile with its options.

    With `enabled=False` nothing is deferred and there is no `ToolSearch`. `always_load` and
    `should_defer` name tools; the first wins. With `defer_mcp=False` the tools of servers are
    deferred only if they are named or marked so.
    """
    if not enabled:
        return replace(
            CORTEX,
            metatools=(),
            prompt=no_prompt,
            policy=Policy(rule="none"),
            on_unloaded="execute",
        )
    policy = Policy(
        rule="served" if defer_mcp else "listed",
        pinned=ToolSelector(names=tuple(always_load)),
        deferred=ToolSelector(names=tuple(should_defer)),
    )
    return replace(CORTEX, policy=policy)
