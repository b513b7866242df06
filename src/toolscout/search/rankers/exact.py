"""Rank tools by name: a query that is, begins or mentions a tool's name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ...catalog.tool import normalise_name
from ...embedders.arrays import Floats, Ints
from ..hit import Reason
from ..ranking import RankingRequest

# Scores are in standard deviations, like those of the other rankers. A tool whose name is the whole
# query must come first, and tools with the query as prefix must be in alphabetical order, so these
# steps are larger than anything the other rankers can add. A name in a sentence is strong evidence,
# but the sentence may still ask for something else.
WHOLE_SCORE = 100.0
PREFIX_SCORE = 50.0
_PREFIX_STEP = 50.0
MENTION_SCORE = 6.0

_IDENTIFIER = re.compile(r"[^\W\d](?:[\w.\-:/]*\w)?")
# Occurs in every identifier; most sentences have none and need no closer look.
_MAY_HAVE_IDENTIFIER = re.compile(r"[_.:\-/A-Z](?:(?<=_)|(?<=[.:\-/])\w|(?<=[a-z][A-Z]))")
_SEPARATOR = re.compile(r"[_.:\-/]")
_CAMEL_CASE = re.compile(r"[a-z]+(?:[A-Z][a-z0-9]+)+")
_MAX_NAME_CHARS = 512
# With more spaces it is a sentence and not a name with spaces in place of underscores.
_MAX_NAME_SPACES = 8

NameMatches = Mapping[int, tuple[float, str]]
"""By slot, the score of a match and the matching text."""


class Exact:
    """Finds tools by name: the whole query is a name, a prefix of one, or mentions one."""

    # In `search_arm` events and in metrics, so it stays even if the class is renamed.
    event_name = "exact"

    def rank(self, request: RankingRequest) -> NameRanking | None:
        """Match the query with the names of visible tools."""
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
    """The tools that a query names."""

    matches: NameMatches
    trust: float = 1.0
    arm: str = "name"

    @property
    def candidates(self) -> Ints:
        """All tools that match."""
        return np.fromiter(self.matches, np.int32, len(self.matches))

    def scores_at(self, slots: Ints) -> Floats:
        """The scores of matches; zero for all other slots."""
        scores = [self.matches[s][0] if s in self.matches else 0.0 for s in slots.tolist()]
        return np.array(scores, np.float32)

    def explain(self, slot: int) -> Reason | None:
        """The part of the query that names a tool."""
        if slot not in self.matches:
            return None
        score, spelling = self.matches[slot]
        return Reason(self.arm, field="name", words=(spelling,), score=score)


def is_tool_name(request: RankingRequest) -> bool:
    """Whether the query is an identifier and the name of a tool, so nothing else can be meant."""
    word = request.query.name
    return bool(word and _is_identifier(word) and _match_whole(request, word))


def _match_whole(request: RankingRequest, name: str) -> NameMatches:
    """The tools with this name in any spelling; the exact spelling scores highest."""
    if len(name) > _MAX_NAME_CHARS or name.count(" ") > _MAX_NAME_SPACES:
        return {}
    found = dict.fromkeys(
        _visible_slots(request, request.index.slots_by_name(name)), (WHOLE_SCORE, name)
    )
    exact = request.index.slot(name)
    if exact is not None and request.allowed[exact]:
        found[exact] = (WHOLE_SCORE + 1, name)
    return found


def _match_prefix(request: RankingRequest, word: str) -> NameMatches:
    """The tools whose name begins with a word, scored in alphabetical order."""
    slots = _slots_with_prefix(request, word) if word and _may_be_prefix(request, word) else []
    return {
        s: (PREFIX_SCORE + _PREFIX_STEP * place, word) for place, s in enumerate(reversed(slots))
    }


def _match_mentions(request: RankingRequest, text: str) -> NameMatches:
    """The tools whose name occurs in a text as an identifier; plain words do not count."""
    found: dict[int, tuple[float, str]] = {}
    if _MAY_HAVE_IDENTIFIER.search(text) is None:
        return found
    words = text[:_MAX_NAME_CHARS].split()
    odd = [w for w in words if not (w.isalpha() and (w.islower() or w.istitle()))]
    for spelling in filter(_is_identifier, _IDENTIFIER.findall(" ".join(odd))):
        found |= dict.fromkeys(
            _visible_slots(request, request.index.slots_by_name(spelling)),
            (MENTION_SCORE, spelling),
        )
    return found


def _visible_slots(request: RankingRequest, slots: Iterable[int]) -> list[int]:
    return [s for s in slots if request.allowed[s]]


def _may_be_prefix(request: RankingRequest, word: str) -> bool:
    """Whether a single word may be a prefix: it is an identifier, or no tool has it as a word."""
    if _is_identifier(word) or word.endswith("_"):
        return True
    return len(word) > 2 and not request.known_terms


def _is_identifier(word: str) -> bool:
    """Whether a word is composed of several, as in `send_mail`, `send-mail` or `sendMail`."""
    if word.isalnum() and (word.islower() or word.istitle()):
        return False
    if len(word) > _MAX_NAME_CHARS or _IDENTIFIER.fullmatch(word) is None:
        return False
    return _SEPARATOR.search(word) is not None or _CAMEL_CASE.fullmatch(word) is not None


def _slots_with_prefix(request: RankingRequest, word: str) -> list[int]:
    """The slots whose name begins with a word, in alphabetical order."""
    start = normalise_name(word)
    if not start:
        return []
    spellings = request.index.shared.spellings
    found = {
        slot
        for name in list(spellings)  # a copy, since an update may add names meanwhile
        if name.startswith(start)
        for slot in spellings.get(name, ())
        if slot < len(request.allowed) and request.allowed[slot]
    }
    return sorted(found, key=lambda s: request.index.tool(s).name)[: request.depth]
