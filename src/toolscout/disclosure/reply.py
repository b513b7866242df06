"""The result of a tool search, and the default reply that a model reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..catalog.result import Content, Result
from ..catalog.sanitization import compact_json, first_sentence
from ..catalog.tool import Tool, wire_name
from ..catalog.tool_text import outline
from ..errors import ToolscoutError
from ..search.hit import QueryVector, Verdict
from ..search.pipeline import STILL_COMPUTING, STILL_LOADING
from .nothing_fits import UNSURE_HEADING, explain_no_match, note_doubtful, note_unmatched
from .scope import Scope
from .surface import Surface


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMatchHint:
    """Help for a model whose search found nothing; the profile chooses the parts."""

    categories: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    unnamed: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSearchResult:
    """The result of one search.

    `tools` are best first; of them `loaded` were loaded by this search and `already` were in view
    before. `missing` were requested by name and do not exist; `unmatched` are the queries of
    several that found nothing, `doubtful` those whose hits are unsure; `overflow` has no room in
    the provider's list; `after` is the scope once tools are loaded; `news` says what changed in
    the catalog since the last report.
    `is_unsure` says that all `tools` are likely wrong. The `confidence` is that of the weakest
    query. `scores` are those of `tools`, and `vectors`
    what the queries were encoded as. `extras` are the tools that features add to the view.
    """

    queries: tuple[str, ...]
    tools: tuple[Tool, ...] = ()
    loaded: tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    confidence: float = 1.0
    is_unsure: bool = False
    is_fuzzy: bool = False
    rules: str = ""
    surface: Surface = "load"
    overflow: frozenset[str] = frozenset()
    after: Scope | None = None
    hint: NoMatchHint = NoMatchHint()
    news: str = ""
    scores: tuple[float, ...] = ()
    extras: tuple[Tool, ...] = ()
    vectors: tuple[QueryVector, ...] = field(default=(), compare=False, repr=False)

    @property
    def awaits_vectors(self) -> bool:
        """Whether semantic search was still loading, so that another search may find more."""
        # In the first seconds after a start, a request in other words than the tool's, or in
        # another language, is only found once vectors are there.
        return any(STILL_LOADING in note or STILL_COMPUTING in note for note in self.notes)

    @property
    def query(self) -> str:
        """The queries as the model wrote them."""
        return "\n".join(self.queries)

    @property
    def verdict(self) -> Verdict:
        """Whether every query has tools that are likely right."""
        if not self.tools:
            return "nothing fits"
        return "unsure" if self.is_unsure or self.unmatched or self.doubtful else "likely"

    @property
    def is_native_answer(self) -> bool:
        """Whether the provider shows the model the loaded tools instead of the reply."""
        return self.surface == "native" and bool(self.loaded)

    @property
    def total_deferred(self) -> int:
        """How many tools are still deferred."""
        return len(self.after.tools_out_of_view) if self.after else 0


def render_side_notes(found: ToolSearchResult) -> str:
    """The text beside the tools, for providers that show the model only the tools.

    It covers unmatched queries, unknown names, notes of the search, rules of use and news.
    """
    parts = [note_unmatched(found.unmatched), note_doubtful(found.doubtful)]
    parts += [f"No such tool: {', '.join(found.missing)}." if found.missing else ""]
    return "\n".join(p for p in (*parts, *found.notes, found.rules, found.news) if p)


ReplyRenderer = Callable[[ToolSearchResult], Result]
"""Writes the reply to a search."""

DefinitionRenderer = Callable[[Sequence[Tool]], str]
"""Writes the definitions of tools."""

ErrorRenderer = Callable[[ToolscoutError], Result]
"""Writes the reply to a failed call of a discovery tool."""


def plain_error(error: ToolscoutError) -> Result:
    """The error message, and its code for programs."""
    return Result.error(str(error), code=error.code)


def json_result(value: dict[str, Any], *, indent: int | None = None) -> Result:
    """A JSON reply, as text for the model and compact for programs."""
    compact = compact_json(value)
    text = json.dumps(value, ensure_ascii=False, indent=indent) if indent else compact
    return Result(content=(Content(text=text),), structured=compact)


def text_result(text: str, details: dict[str, Any]) -> Result:
    """A plain text reply for the model, with the same facts as JSON for programs."""
    return Result(content=(Content(text=text),), structured=compact_json(details))


_LINE_CHARS = 90
_NOTE_CHARS = 60


def describe_full(tools: Sequence[Tool]) -> str:
    """Name, description and the complete schema as JSON, one tool after another."""
    return "\n\n".join(f"{t.name}: {t.description}\n{t.parameters.text}" for t in tools)


def describe_compact(tools: Sequence[Tool]) -> str:
    """Name, description and one line for each parameter instead of JSON."""
    return "\n\n".join(f"{t.name}: {t.description}\n{_outline(t)}" for t in tools)


def signature_line(tool: Tool, *, name: str = "") -> str:
    """A tool in one line: required arguments, the number of optional ones, and what it does."""
    # Types and optional names would double the cost of a line and save no lookup: arguments are
    # checked, and an error carries the schema (docs/decisions/replies.md).
    parameters = tool.parameters.top_level()
    required = [p.name for p in parameters if p.required]
    optional = len(parameters) - len(required)
    arguments = ", ".join([*required, *([f"+{optional} optional"] if optional else [])])
    summary = first_sentence(tool.description, cap=_LINE_CHARS)
    return f"{name or tool.name}({arguments}): {summary}"


def _outline(tool: Tool) -> str:
    return outline(tool.parameters, note_cap=_NOTE_CHARS) or "(no arguments)"


# A session can be rebuilt from its messages alone (rebuild.py), which reads these lines back.
# Changing one breaks the transcripts that older versions wrote.
LOADED_LINE = "Loaded: "
"""The start of the line that names loaded tools."""

ALREADY_LINE = "Already in your tool list: "
"""The start of the line that names tools that were in view before."""

RUN_HEADING = "Run with call_tool:"
"""The line above the definitions of tools to run through the dispatcher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultReply:
    """A reply in few tokens; `describe` writes the definition of the best hit.

    The definition is part of the reply only where nothing else delivers it: a loaded tool arrives
    with its schema in the next request.
    """

    describe: DefinitionRenderer = describe_full
    # Eight near names cost 60 tokens and turn half of the misses into one short lookup by exact
    # name (docs/decisions/replies.md).
    near: int = 8

    def __call__(self, found: ToolSearchResult) -> Result:
        """The reply as plain text."""
        text = self._render_tools(found) if found.tools else self._no_match_text(found)
        names = [n for n in found.near if n not in found.missing][: self.near]
        near = f"Near: {', '.join(_name_formatter(found)(n) for n in names)}" if names else ""
        # For a native answer the notes are a content block of their own (see discovery.py): the
        # provider puts the tools in place of this text.
        notes = "" if found.is_native_answer else render_side_notes(found)
        return Result.of("\n".join(p for p in (text, near, notes) if p))

    def _render_tools(self, found: ToolSearchResult) -> str:
        """The callable tools, with definitions where needed, then the other hits."""
        if found.is_unsure and not found.loaded:
            # A weak hit fits no better because it was shown before.
            return "\n".join([UNSURE_HEADING, *_signature_lines(found, found.tools)])
        ready = [t for t in found.tools if t.name in (*found.loaded, *found.already)]
        others = [t for t in found.tools if t not in ready]
        return "\n".join([*self._ready_lines(found, ready), *_other_lines(found, others)])

    def _ready_lines(self, found: ToolSearchResult, ready: list[Tool]) -> list[str]:
        if found.surface == "dispatch":
            # The best hit always comes with its definition, even if an earlier reply had it.
            # Other hits that were described before are only named.
            new = [t for t in ready if t.name in found.loaded or t is found.tools[0]]
            old = [t.name for t in ready if t not in new]
            repeated = [f"Shown before: {', '.join(old)}"] if old else []
            return [*([f"{RUN_HEADING}\n{self.describe(new)}"] if new else []), *repeated]
        name = _name_formatter(found)
        new = [name(n) for n in found.loaded if n not in found.overflow]
        listed = [t.name for t in ready if t.name not in found.overflow]
        old = [name(n) for n in listed if n not in found.loaded]
        return [
            *(
                [f"{LOADED_LINE}{', '.join(new)} (in your tool list from the next step)"]
                if new
                else []
            ),
            *([f"{ALREADY_LINE}{', '.join(old)}"] if old else []),
        ]

    def _no_match_text(self, found: ToolSearchResult) -> str:
        if found.awaits_vectors:
            return (
                f"No keyword match for {found.query[:200]!r} yet: semantic search is still loading."
                " Search again in a few seconds."
            )
        return explain_no_match(found.query)


def _other_lines(found: ToolSearchResult, tools: Sequence[Tool]) -> list[str]:
    if not tools:
        return []
    head = "Also:" if found.surface == "dispatch" else "Also found; load with select:name:"
    return [head, *_signature_lines(found, tools)]


def _signature_lines(found: ToolSearchResult, tools: Sequence[Tool]) -> list[str]:
    name = _name_formatter(found)
    return [signature_line(t, name=name(t.name)) for t in tools]


def _name_formatter(found: ToolSearchResult) -> Callable[[str], str]:
    """How to write names: as in the model's tool list, or unchanged on dispatch."""
    # On dispatch a name is only an argument of `call_tool`, so the catalog's own name will do.
    return str if found.surface == "dispatch" else wire_name
