"""Design C, Cortex: names in a slot, schemas by `ToolSearch`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ...catalog.result import Result
from ...catalog.tool import Tool
from ...errors import ConfigError
from ..matcher import SearchDomain, ToolMatches, load_all, rank_by_score
from ..metatools import metatool, object_schema
from ..profile import DisclosureLimits, HintTemplate, Profile
from ..prompts import AVAILABLE_TOOLS_SLOT, slot_prompt
from ..reply import ToolSearchResult, text_result
from ..scope import Policy

_PARTS = re.compile(r"__|_")
_SELECT = "select:"


@dataclass(frozen=True, slots=True)
class QueryFormMatcher:
    """Reads a query as the first form that fits; names and prefixes keep their case."""

    def match(self, query: str, domain: SearchDomain, *, limit: int | None) -> ToolMatches:
        """`select:` takes every name it lists; the other forms are cut at the limit."""
        text = query.strip()
        if not text:
            return ToolMatches()
        if text.startswith(_SELECT):
            return _match_select(text.removeprefix(_SELECT), domain)
        if len(text.split()) == 1:
            found = _match_name(text, domain, limit=limit)
            if found:
                return ToolMatches(tools=found, scores=(1.0,) * len(found))
        return _match_words(text, domain, limit=limit)


def _match_select(text: str, domain: SearchDomain) -> ToolMatches:
    asked = dict.fromkeys(name for part in text.split(",") if (name := part.strip()))
    known = {t.name: t for t in domain.tools}
    found = tuple(known[n] for n in asked if n in known)
    missing = tuple(n for n in asked if n not in known)
    return ToolMatches(tools=found, scores=(1.0,) * len(found), missing=missing)


def _match_name(text: str, domain: SearchDomain, *, limit: int | None) -> tuple[Tool, ...]:
    """The tool of that name, else those whose names begin so; loaded ones take nobody's place."""
    exact = tuple(t for t in domain.tools if t.name == text)
    if exact:
        return exact
    begun = sorted((t for t in domain.tools if t.name.startswith(text)), key=lambda t: t.name)
    fresh = [t.name for t in begun if t.name not in domain.loaded][:limit]
    return tuple(t for t in begun if t.name in domain.loaded or t.name in fresh)


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
            parts = _PARTS.split(name)
            score = sum(
                _score_term(t, parts, name, description, served=bool(tool.server)) for t in terms
            )
            scored.append((float(score), tool))
    return rank_by_score([pair for pair in scored if pair[0] > 0], limit=limit)


def _score_term(term: str, parts: list[str], name: str, description: str, *, served: bool) -> int:
    """What one word is worth: a part of the name most, more for a server's tool; text least."""
    if term in parts:
        return 12 if served else 10
    if any(term in part for part in parts):
        return 6 if served else 5
    if term in name:
        return 3
    return 2 if term in description else 0


LOADED_HEADING = "Loaded; callable on the next turn:"
"""The line above what came into view."""


def render_blocks(found: ToolSearchResult) -> Result:
    """What became of each name, in blocks of lines with one blank line between them."""
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


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots in a fixed order, the list of available tools first; `writes` counts real changes."""

    names: tuple[str, ...]
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    writes: int = 0

    @classmethod
    def of(cls, *names: str) -> Slots:
        """Slots of these names after the one for available tools."""
        order = (AVAILABLE_TOOLS_SLOT, *names)
        doubled = sorted({n for n in order if order.count(n) > 1})
        if doubled:
            raise ConfigError(
                f"Slots must have different names; given twice: {', '.join(doubled)}.",
                hint=f"{AVAILABLE_TOOLS_SLOT} is always there.",
            )
        return cls(order)

    def write(self, name: str, text: str) -> Slots:
        """Set a slot's text; the same text is the same value, so a cached prompt stays valid."""
        if name not in self.names:
            raise ConfigError(
                f"There is no slot {name!r}.", hint=f"The slots are: {', '.join(self.names)}."
            )
        if self.texts.get(name, "") == text:
            return self
        return replace(self, texts={**self.texts, name: text}, writes=self.writes + 1)

    def write_all(self, slots: Iterable[tuple[str, str]]) -> Slots:
        """Set several, as a view gives them."""
        now = self
        for name, text in slots:
            now = now.write(name, text)
        return now

    def messages(self) -> list[dict[str, str]]:
        """The filled slots as messages of the user, to go before the conversation."""
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
    searches_waiting_only=True,
    loading=load_all,
    reply=render_blocks,
    prompt=slot_prompt,
    limits=DisclosureLimits(hits=5, most=None, least=0),
    advice=HintTemplate(parts=()),
    on_empty="none",
    on_unloaded="reject",
)
