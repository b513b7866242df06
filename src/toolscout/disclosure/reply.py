"""What a search found, as a value, and the default reply that a model reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..catalog.names import wire_name
from ..catalog.result import Content, Result
from ..catalog.tool import Tool
from ..catalog.tool_text import first_sentence, outline
from ..errors import ToolscoutError
from .matcher import MIN_CONFIDENCE
from .scope import Scope
from .surface import Surface


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMatchHint:
    """What may help a model whose search found nothing; each part only where a profile gives it."""

    categories: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    unnamed: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSearchResult:
    """The outcome of one search.

    `tools` are best first; of them `loaded` came into view by this search and `already` were in
    view before. `missing` was asked for by name and does not exist; `unmet` are the queries of
    several that found nothing; `after` is the catalog as it stands now that things are loaded;
    `news` tells what changed in it since the model was last told. `beyond` has no room in the
    provider's list, which takes only so many.
    """

    queries: tuple[str, ...]
    tools: tuple[Tool, ...] = ()
    loaded: tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    confidence: float = 1.0
    is_fuzzy: bool = False
    rules: str = ""
    surface: Surface = "load"
    beyond: frozenset[str] = frozenset()
    after: Scope | None = None
    hint: NoMatchHint = NoMatchHint()
    news: str = ""

    @property
    def query(self) -> str:
        """What was asked, as it was asked."""
        return "\n".join(self.queries)

    @property
    def is_native_answer(self) -> bool:
        """Whether the provider shows the model the tools themselves in place of the reply."""
        return self.surface == "native" and bool(self.loaded)

    @property
    def total_deferred(self) -> int:
        """How many tools still wait."""
        return len(self.after.tools_out_of_view) if self.after else 0


def render_side_notes(found: ToolSearchResult) -> str:
    """What has to be said besides the tools themselves, where a provider shows only those.

    That is what was not found, how the search went, the rules of use, and what is new.
    """
    parts = [f"Nothing fits {', '.join(map(repr, found.unmet))}." if found.unmet else ""]
    parts += [f"No such tool: {', '.join(found.missing)}." if found.missing else ""]
    return "\n".join(p for p in (*parts, *found.notes, found.rules, found.news) if p)


ReplyRenderer = Callable[[ToolSearchResult], Result]
"""Says what was found."""

DefinitionRenderer = Callable[[Sequence[Tool]], str]
"""Writes out the definitions of tools."""

ErrorRenderer = Callable[[ToolscoutError], Result]
"""Says what is wrong with a call of a discovery tool."""


def plain_error(error: ToolscoutError) -> Result:
    """The error in words, and its code for programs."""
    return Result.error(str(error), code=error.code)


def json_result(value: dict[str, Any], *, indent: int | None = None) -> Result:
    """A JSON answer: as text for the model, compact for programs."""
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = json.dumps(value, ensure_ascii=False, indent=indent) if indent else compact
    return Result(content=(Content(text=text),), structured=compact)


def text_result(text: str, details: dict[str, Any]) -> Result:
    """A plain text answer for the model, with the same facts as JSON for programs."""
    facts = json.dumps(details, ensure_ascii=False, separators=(",", ":"))
    return Result(content=(Content(text=text),), structured=facts)


_LINE_CHARS = 90
_NOTE_CHARS = 60


def describe_full(tools: Sequence[Tool]) -> str:
    """Name, description and the whole schema as JSON, one tool after another."""
    return "\n\n".join(f"{t.name}: {t.description}\n{t.parameters.text}" for t in tools)


def describe_compact(tools: Sequence[Tool]) -> str:
    """The same with a line a parameter instead of JSON."""
    return "\n\n".join(f"{t.name}: {t.description}\n{_outline(t)}" for t in tools)


def signature_line(tool: Tool, *, name: str = "") -> str:
    """A tool in one line: what it must be given, how much it may be given, and what it does."""
    parameters = tool.parameters.top_level()
    needed = [p.name for p in parameters if p.required]
    left = len(parameters) - len(needed)
    taken = ", ".join([*needed, *([f"+{left} optional"] if left else [])])
    said = first_sentence(tool.description, cap=_LINE_CHARS)
    return f"{name or tool.name}({taken}): {said}"


def _outline(tool: Tool) -> str:
    return outline(tool.parameters, note_cap=_NOTE_CHARS) or "(no arguments)"


LOADED_LINE = "Loaded: "
"""How the line begins that names what came into view."""

ALREADY_LINE = "Already in your tool list: "
"""How the line begins that names what was in view before."""

RUN_HEADING = "Run with call_tool:"
"""The line above the definitions of what is run through the dispatcher."""

WEAK_HEADING = "Nothing fits well; the nearest are these. If none of them does it, say so:"
"""The line above hits that are likely wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultReply:
    """Says in few tokens what was found; `describe` writes the definition of the best hit.

    The definition is given only where nothing else delivers it: a loaded tool arrives with its
    schema in the next request.
    """

    describe: DefinitionRenderer = describe_full
    near: int = 8

    def __call__(self, found: ToolSearchResult) -> Result:
        """The answer as plain text."""
        said = self._render_tools(found) if found.tools else self._no_match_text(found)
        names = [n for n in found.near if n not in found.missing][: self.near]
        near = f"Near: {', '.join(_name_formatter(found)(n) for n in names)}" if names else ""
        more = "" if found.is_native_answer else render_side_notes(found)
        return Result.of("\n".join(p for p in (said, near, more) if p))

    def _render_tools(self, found: ToolSearchResult) -> str:
        """What is ready, with its definition where that is needed, and what else there is."""
        if found.confidence < MIN_CONFIDENCE and not found.loaded:
            # A weak hit fits no better for having been shown before.
            return "\n".join([WEAK_HEADING, *_signature_lines(found, found.tools)])
        ready = [t for t in found.tools if t.name in (*found.loaded, *found.already)]
        others = [t for t in found.tools if t not in ready]
        return "\n".join([*self._ready_lines(found, ready), *_other_lines(found, others)])

    def _ready_lines(self, found: ToolSearchResult, ready: list[Tool]) -> list[str]:
        if found.surface == "dispatch":
            new = [t for t in ready if t.name in found.loaded or t is found.tools[0]]
            old = [t.name for t in ready if t not in new]
            seen = [f"Shown before: {', '.join(old)}"] if old else []
            return [*([f"{RUN_HEADING}\n{self.describe(new)}"] if new else []), *seen]
        name = _name_formatter(found)
        new = [name(n) for n in found.loaded if n not in found.beyond]
        listed = [t.name for t in ready if t.name not in found.beyond]
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
        return (
            f"No tool fits {found.query[:200]!r}. "
            "Ask for the action in other words, or go on without."
        )


def _other_lines(found: ToolSearchResult, tools: Sequence[Tool]) -> list[str]:
    if not tools:
        return []
    head = "Also:" if found.surface == "dispatch" else "Also, to be loaded by select:name:"
    return [head, *_signature_lines(found, tools)]


def _signature_lines(found: ToolSearchResult, tools: Sequence[Tool]) -> list[str]:
    name = _name_formatter(found)
    return [signature_line(t, name=name(t.name)) for t in tools]


def _name_formatter(found: ToolSearchResult) -> Callable[[str], str]:
    """Names as the model sees them in its list, or as they are where it only passes them on."""
    return str if found.surface == "dispatch" else wire_name
