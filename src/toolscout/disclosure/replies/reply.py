"""What a search found, as a value; a reply turns it into what the model reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...catalog.result import Content, Result
from ...catalog.tool import Tool
from ...errors import ToolscoutError
from ..scope import Scope
from ..surface import Surface


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """What may help a model whose search found nothing; each part only where a profile gives it."""

    categories: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    unnamed: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
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
    hint: Hint = Hint()
    news: str = ""

    @property
    def query(self) -> str:
        """What was asked, as it was asked."""
        return "\n".join(self.queries)

    @property
    def is_shown(self) -> bool:
        """Whether the provider shows the model the tools themselves in place of the reply."""
        return self.surface == "native" and bool(self.loaded)

    @property
    def remaining(self) -> int:
        """How many tools still wait."""
        return len(self.after.waiting) if self.after else 0


def beside(found: Found) -> str:
    """What has to be said besides the tools themselves, where a provider shows only those.

    That is what was not found, how the search went, the rules of use, and what is new.
    """
    parts = [f"Nothing fits {', '.join(map(repr, found.unmet))}." if found.unmet else ""]
    parts += [f"No such tool: {', '.join(found.missing)}." if found.missing else ""]
    return "\n".join(p for p in (*parts, *found.notes, found.rules, found.news) if p)


Reply = Callable[[Found], Result]
"""Says what was found."""

Describe = Callable[[Sequence[Tool]], str]
"""Writes out the definitions of tools."""

Complain = Callable[[ToolscoutError], Result]
"""Says what is wrong with a call of a discovery tool."""


def plain_error(error: ToolscoutError) -> Result:
    """The error in words, and its code for programs."""
    return Result.error(str(error), code=error.code)


def structured(value: dict[str, Any], *, indent: int | None = None) -> Result:
    """A JSON answer: as text for the model, compact for programs."""
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = json.dumps(value, ensure_ascii=False, indent=indent) if indent else compact
    return Result(content=(Content(text=text),), structured=compact)


def spoken(text: str, details: dict[str, Any]) -> Result:
    """A plain text answer for the model, with the same facts as JSON for programs."""
    facts = json.dumps(details, ensure_ascii=False, separators=(",", ":"))
    return Result(content=(Content(text=text),), structured=facts)
