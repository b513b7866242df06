"""Names: what is called by its name, in any case style, comes first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...catalog.names import normalised
from ..hit import Reason
from ..ranking import Floats, Ints, Request
from ..typos import unseen

WHOLE = 100.0
PREFIX = 50.0
MENTIONED = 6.0
_IDENTIFIER = re.compile(r"[^\W\d][\w.\-:/]*[_.:\-/][\w.\-:/]*\w|[a-z]+(?:[A-Z][a-z0-9]+)+")
_LONGEST = 512


class Exact:
    """The arm of names: the whole query is one, begins one, or mentions one."""

    def rank(self, request: Request) -> Names | None:
        """The tools whose name the query says."""
        found: dict[int, tuple[float, str]] = {}
        text = request.query.words.strip()
        for spelling in _IDENTIFIER.findall(text[:_LONGEST]):
            for slot in request.index.named(spelling):
                found[slot] = (MENTIONED, spelling)
        word = request.query.name
        if word and not found and _is_beginning(request, word):
            found = dict.fromkeys(_beginning(request, word), (PREFIX, word))
        if len(text) <= _LONGEST:
            for slot in request.index.named(word or text):
                found[slot] = (WHOLE, word or text)
            if (slot := request.index.slot(word or text)) is not None:
                found[slot] = (WHOLE + 1, word or text)
        found = {s: v for s, v in found.items() if request.allowed[s]}
        return Names(found) if found else None


@dataclass(frozen=True, slots=True)
class Names:
    """The tools named, and how."""

    found: Mapping[int, tuple[float, str]]
    trust: float = 1.0
    arm: str = "name"

    @property
    def candidates(self) -> Ints:
        """All of them."""
        return np.fromiter(self.found, np.int32, len(self.found))

    def at(self, slots: Ints) -> Floats:
        """Far above anything else for those named, nothing for the rest."""
        gains = [self.found[s][0] if s in self.found else 0.0 for s in slots.tolist()]
        return np.array(gains, np.float32)

    def why(self, slot: int) -> Reason | None:
        """The spelling that named a tool."""
        if slot not in self.found:
            return None
        gain, spelling = self.found[slot]
        return Reason(self.arm, field="name", words=(spelling,), score=gain)


def _is_beginning(request: Request, word: str) -> bool:
    """Whether a lone word may begin a name: it looks like one, or no tool has it as a word."""
    if _IDENTIFIER.fullmatch(word) or word.endswith("_"):
        return True
    strange = unseen(request.index, request.terms, request.allowed)
    return len(word) > 2 and len(strange) == len(request.terms)


def _beginning(request: Request, word: str) -> list[int]:
    """The slots whose name begins with a word, alphabetically."""
    start = normalised(word)
    if not start:
        return []
    spellings = list(request.index.shared.spellings.items())
    found = {
        slot
        for name, slots in spellings
        if name.startswith(start)
        for slot in slots
        if slot < len(request.allowed) and request.allowed[slot]
    }
    return sorted(found, key=lambda s: request.index.tool(s).name)[: request.depth]
