"""Self-retrieval: which tools a search for their own description does not find first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..catalog.lint import stem
from ..catalog.sanitization import first_sentence
from ..catalog.tool import Tool, normalise_name
from ..search.engine import Engine

DEPTH = 20
"""How many hits are looked at for a tool's rank."""

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


@dataclass(frozen=True, slots=True)
class MissedTool:
    """A tool that none of its own queries finds first."""

    tool: Tool
    query: str
    """The first sentence of its description without the words of its name; may be empty."""
    rank: int | None
    """Its place for this query; None if it is not among the first hits."""
    outranked_by: str
    """The tool that comes first instead, if any."""


def self_query(tool: Tool) -> str:
    """What the first sentence of a tool's description says beyond its name."""
    named = {stem(word) for word in normalise_name(tool.local_name).split("_")}
    sentence = first_sentence(tool.description)
    rest = _WORD.sub(lambda m: "" if stem(m[0].lower()) in named else m[0], sentence)
    return " ".join(rest.split()) if _WORD.search(rest) else ""


def find_missed_tools(
    engine: Engine,
    tools: Sequence[Tool],
    *,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Iterator[MissedTool]:
    """Search for every tool by its own words; a phrase that finds it first is enough."""
    for done, tool in enumerate(tools):
        progress(done, len(tools))
        if (missed := _look_for(engine, tool)) is not None:
            yield missed
    progress(len(tools), len(tools))


def _look_for(engine: Engine, tool: Tool) -> MissedTool | None:
    query = self_query(tool)
    names = engine.search(query, limit=DEPTH, mode="words").names if query else ()
    if names[:1] == (tool.name,) or any(_is_first(engine, tool, p) for p in tool.phrases):
        return None
    rank = names.index(tool.name) + 1 if tool.name in names else None
    return MissedTool(tool, query, rank, names[0] if names else "")


def _is_first(engine: Engine, tool: Tool, phrase: str) -> bool:
    return engine.search(phrase, limit=1, mode="words").names == (tool.name,)
