"""Names: what is called by its name, in any case style, comes first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ...catalog.names import normalised
from ..hit import Reason
from ..ranking import Floats, Ints, Request
from ..typos import unseen

WHOLE = 100.0
PREFIX = 50.0
MENTIONED = 6.0
_RUN = re.compile(r"[^\W\d](?:[\w.\-:/]*\w)?")
# What every identifier has somewhere; most sentences have none, and are passed over.
_MARKED = re.compile(r"[_.:\-/A-Z](?:(?<=_)|(?<=[.:\-/])\w|(?<=[a-z][A-Z]))")
_JOINT = re.compile(r"[_.:\-/]")
_HUMPS = re.compile(r"[a-z]+(?:[A-Z][a-z0-9]+)+")
_STEP = 50.0
_LONGEST = 512
_MOST_BLANKS = 8  # a sentence, not a name that was spelled in words

Found = Mapping[int, tuple[float, str]]
"""Slots, what each gains by its name, and the spelling that named it."""


class Exact:
    """The arm of names: the whole query is one, begins one, or mentions one."""

    def rank(self, request: Request) -> Names | None:
        """The tools whose name the query says."""
        text = request.query.words.strip()
        word = request.query.name
        found = _called(request, word or text) or _begun(request, word) or _mentioned(request, text)
        return Names(found) if found else None


@dataclass(frozen=True, slots=True)
class Names:
    """The tools named, and how."""

    found: Found
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


def is_called(request: Request) -> bool:
    """Whether the whole query is the name of a tool and no plain word: nothing else is asked."""
    word = request.query.name
    return bool(word and _is_identifier(word) and _called(request, word))


def _called(request: Request, name: str) -> Found:
    """What is called just so; first of all what is spelled just so."""
    if len(name) > _LONGEST or name.count(" ") > _MOST_BLANKS:
        return {}
    found = dict.fromkeys(_seen(request, request.index.named(name)), (WHOLE, name))
    exact = request.index.slot(name)
    if exact is not None and request.allowed[exact]:
        found[exact] = (WHOLE + 1, name)
    return found


def _begun(request: Request, word: str) -> Found:
    """What begins so, by name: a step is more than the other arms could make up for."""
    slots = _beginning(request, word) if word and _is_beginning(request, word) else []
    return {s: (PREFIX + _STEP * place, word) for place, s in enumerate(reversed(slots))}


def _mentioned(request: Request, text: str) -> Found:
    found: dict[int, tuple[float, str]] = {}
    if _MARKED.search(text) is None:
        return found
    words = text[:_LONGEST].split()
    odd = [w for w in words if not (w.isalpha() and (w.islower() or w.istitle()))]
    for spelling in filter(_is_identifier, _RUN.findall(" ".join(odd))):
        found |= dict.fromkeys(_seen(request, request.index.named(spelling)), (MENTIONED, spelling))
    return found


def _seen(request: Request, slots: Iterable[int]) -> list[int]:
    return [s for s in slots if request.allowed[s]]


def _is_beginning(request: Request, word: str) -> bool:
    """Whether a lone word may begin a name: it looks like one, or no tool has it as a word."""
    if _is_identifier(word) or word.endswith("_"):
        return True
    strange = unseen(request.index, request.terms, request.allowed)
    return len(word) > 2 and len(strange) == len(request.terms)


def _is_identifier(word: str) -> bool:
    """Whether a word is joined out of several, as names are and plain words are not."""
    if word.isalnum() and (word.islower() or word.istitle()):
        return False
    if len(word) > _LONGEST or _RUN.fullmatch(word) is None:
        return False
    return _JOINT.search(word) is not None or _HUMPS.fullmatch(word) is not None


def _beginning(request: Request, word: str) -> list[int]:
    """The slots whose name begins with a word, alphabetically."""
    start = normalised(word)
    if not start:
        return []
    spellings = request.index.shared.spellings
    found = {
        slot
        for name in list(spellings)  # which an update may be adding to: the names in one step
        if name.startswith(start)
        for slot in spellings.get(name, ())
        if slot < len(request.allowed) and request.allowed[slot]
    }
    return sorted(found, key=lambda s: request.index.tool(s).name)[: request.depth]
