"""The default reply: the best hit ready to call, the next in a line each, the rest by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...catalog.names import wire_name
from ...catalog.result import Result
from ...catalog.tool import Tool
from ..loading import SURE
from .definitions import in_a_line, plainly
from .reply import Describe, Found, beside

LOADED = "Loaded: "
"""How the line begins that names what came into view."""

ALREADY = "Already in your tool list: "
"""How the line begins that names what was in view before."""

RUN = "Run with call_tool:"
"""The line above the definitions of what is run through the dispatcher."""

WEAK = "Nothing fits well; the nearest are these. If none of them does it, say so:"
"""The line above hits that are likely wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scout:
    """Says in few tokens what was found; `describe` writes the definition of the best hit.

    The definition is given only where nothing else delivers it: a loaded tool arrives with its
    schema in the next request.
    """

    describe: Describe = plainly
    near: int = 8

    def __call__(self, found: Found) -> Result:
        """The answer as plain text."""
        said = self._found(found) if found.tools else self._nothing(found)
        names = [n for n in found.near if n not in found.missing][: self.near]
        near = f"Near: {', '.join(_names(found)(n) for n in names)}" if names else ""
        more = "" if found.is_shown else beside(found)
        return Result.of("\n".join(p for p in (said, near, more) if p))

    def _found(self, found: Found) -> str:
        """What is ready, with its definition where that is needed, and what else there is."""
        if found.confidence < SURE and not found.loaded:
            # A weak hit fits no better for having been shown before.
            return "\n".join([WEAK, *_lines(found, found.tools)])
        ready = [t for t in found.tools if t.name in (*found.loaded, *found.already)]
        others = [t for t in found.tools if t not in ready]
        return "\n".join([*self._ready(found, ready), *_others(found, others)])

    def _ready(self, found: Found, ready: list[Tool]) -> list[str]:
        if found.surface == "dispatch":
            new = [t for t in ready if t.name in found.loaded or t is found.tools[0]]
            old = [t.name for t in ready if t not in new]
            seen = [f"Shown before: {', '.join(old)}"] if old else []
            return [*([f"{RUN}\n{self.describe(new)}"] if new else []), *seen]
        name = _names(found)
        new = [name(n) for n in found.loaded if n not in found.beyond]
        listed = [t.name for t in ready if t.name not in found.beyond]
        old = [name(n) for n in listed if n not in found.loaded]
        return [
            *([f"{LOADED}{', '.join(new)} (in your tool list from the next step)"] if new else []),
            *([f"{ALREADY}{', '.join(old)}"] if old else []),
        ]

    def _nothing(self, found: Found) -> str:
        return (
            f"No tool fits {found.query[:200]!r}. "
            "Ask for the action in other words, or go on without."
        )


def _others(found: Found, tools: Sequence[Tool]) -> list[str]:
    if not tools:
        return []
    head = "Also:" if found.surface == "dispatch" else "Also, to be loaded by select:name:"
    return [head, *_lines(found, tools)]


def _lines(found: Found, tools: Sequence[Tool]) -> list[str]:
    name = _names(found)
    return [in_a_line(t, name=name(t.name)) for t in tools]


def _names(found: Found) -> Callable[[str], str]:
    """Names as the model sees them in its list, or as they are where it only passes them on."""
    return str if found.surface == "dispatch" else wire_name
