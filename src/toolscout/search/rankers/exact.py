"""Names: what is called by its name, in any case style, comes first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ...catalog.names import normalise_name
from ..hit import Reason
from ..ranking import Floats, Ints, RankingRequest
from ..typos import unknown_terms

WHOLE_SCORE = 100.0
PREFIX_SCORE = 50.0
MENTION_SCORE = 6.0
_RUN = re.compile(r"[^\W\d](?:[\w.\-:/]*\w)?")
# What every identifier has somewhere; most sentences have none, and are passed over.
_MARKED = re.compile(r"[_.:\-/A-Z](?:(?<=_)|(?<=[.:\-/])\w|(?<=[a-z][A-Z]))")
_JOINT = re.compile(r"[_.:\-/]")
_HUMPS = re.compile(r"[a-z]+(?:[A-Z][a-z0-9]+)+")
_PREFIX_STEP = 50.0
_LONGEST = 512
_MOST_BLANKS = 8  # a sentence, not a name that was spelled in words

NameMatches = Mapping[int, tuple[float, str]]
"""Slots, what each gains by its name, and the spelling that named it."""


class Exact:
    """The arm of names: the whole query is one, begins one, or mentions one."""

    def rank(self, request: RankingRequest) -> NameRanking | None:
        """The tools whose name the query says."""
        text = request.query.words.strip()
        word = request.query.name
        found = (
            _match_whole(request, word or text)
            or _match_prefix(request, word)
            or _match_mentions(request, text)
        )
        return NameRanking(found) if found else None


@dataclass(frozen=True, slots=True)
class NameRanking:
    """The tools named, and how."""

    matches: NameMatches
    trust: float = 1.0
    arm: str = "name"

    @property
    def candidates(self) -> Ints:
        """All of them."""
        return np.fromiter(self.matches, np.int32, len(self.matches))

    def scores_at(self, slots: Ints) -> Floats:
        """Far above anything else for those named, nothing for the rest."""
        gains = [self.matches[s][0] if s in self.matches else 0.0 for s in slots.tolist()]
        return np.array(gains, np.float32)

    def explain(self, slot: int) -> Reason | None:
        """The spelling that named a tool."""
        if slot not in self.matches:
            return None
        gain, spelling = self.matches[slot]
        return Reason(self.arm, field="name", words=(spelling,), score=gain)


def is_tool_name(request: RankingRequest) -> bool:
    """Whether the whole query is the name of a tool and no plain word: nothing else is asked."""
    word = request.query.name
    return bool(word and _is_identifier(word) and _match_whole(request, word))


def _match_whole(request: RankingRequest, name: str) -> NameMatches:
    """What is called just so; first of all what is spelled just so."""
    if len(name) > _LONGEST or name.count(" ") > _MOST_BLANKS:
        return {}
    found = dict.fromkeys(
        _visible_slots(request, request.index.slots_by_name(name)), (WHOLE_SCORE, name)
    )
    exact = request.index.slot(name)
    if exact is not None and request.allowed[exact]:
        found[exact] = (WHOLE_SCORE + 1, name)
    return found


def _match_prefix(request: RankingRequest, word: str) -> NameMatches:
    """What begins so, by name: a step is more than the other arms could make up for."""
    slots = _slots_with_prefix(request, word) if word and _may_be_prefix(request, word) else []
    return {
        s: (PREFIX_SCORE + _PREFIX_STEP * place, word) for place, s in enumerate(reversed(slots))
    }


def _match_mentions(request: RankingRequest, text: str) -> NameMatches:
    found: dict[int, tuple[float, str]] = {}
    if _MARKED.search(text) is None:
        return found
    words = text[:_LONGEST].split()
    odd = [w for w in words if not (w.isalpha() and (w.islower() or w.istitle()))]
    for spelling in filter(_is_identifier, _RUN.findall(" ".join(odd))):
        found |= dict.fromkeys(
            _visible_slots(request, request.index.slots_by_name(spelling)),
            (MENTION_SCORE, spelling),
        )
    return found


def _visible_slots(request: RankingRequest, slots: Iterable[int]) -> list[int]:
    return [s for s in slots if request.allowed[s]]


def _may_be_prefix(request: RankingRequest, word: str) -> bool:
    """Whether a lone word may begin a name: it looks like one, or no tool has it as a word."""
    if _is_identifier(word) or word.endswith("_"):
        return True
    strange = unknown_terms(request.index, request.terms, request.allowed)
    return len(word) > 2 and len(strange) == len(request.terms)


def _is_identifier(word: str) -> bool:
    """Whether a word is joined out of several, as names are and plain words are not."""
    if word.isalnum() and (word.islower() or word.istitle()):
        return False
    if len(word) > _LONGEST or _RUN.fullmatch(word) is None:
        return False
    return _JOINT.search(word) is not None or _HUMPS.fullmatch(word) is not None


def _slots_with_prefix(request: RankingRequest, word: str) -> list[int]:
    """The slots whose name begins with a word, alphabetically."""
    start = normalise_name(word)
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
