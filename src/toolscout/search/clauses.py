"""Split a request into clauses, each of which may need a tool, and drop long quotations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from ..embedders.languages import CONNECTIVES
from ..embedders.quotations import drop_content, has_quotation, is_quotation, mask_quotations

MAX_CLAUSES = 32
# A shorter piece names no task of its own ("and then stop") and joins its neighbour; one word less
# is enough for the first, which may be a command.
_MIN_WORDS = 4
_MAX_TEXT_CHARS = 8_000

_JOINERS = "|".join(CONNECTIVES).replace(" ", r"\s")
_BOUNDARY = re.compile(
    rf"""
      (?<![.!?؟…])[.!?؟…]++["'”’)\]]*+(?=\s|$)    # sentence ends
    | [。！？]["'”’」』)\]]*                         # and where no space follows them
    | (?:^|\s)(?:[-*–—]|\d{{1,2}}[.)])(?=\s)      # list marks
    | [;；؛\n•·▪‣]+                                # semicolons, lines, bullets
    | [,，、،]?\ (?:{_JOINERS})(?=\s)
    | [，,、]?(?:然后|並且|并且|以及|同时|接着|另外|還有|还有|それから|そして|その後|また)
    | [，,](?:再|还要|顺便|并|也) | (?<=て)、
    """,
    re.IGNORECASE | re.VERBOSE,
)


def split_clauses(text: str) -> tuple[str, ...]:
    """Split a request at sentence ends, lines, list marks and joining words."""
    text = text[:_MAX_TEXT_CHARS]
    # Single spaces only, so that the pattern takes linear time.
    if "  " in text or not text.isprintable():
        text = "\n".join([" ".join(line.split()) for line in text.splitlines()])
    clauses: list[str] = []
    pieces = (text[piece] for piece in _find_pieces(text))
    parts = (_BOUNDARY.split(piece) if is_quotation(piece) else (piece,) for piece in pieces)
    for piece in filter(None, map(str.strip, chain.from_iterable(parts))):
        if clauses and (_is_short(piece) or _is_short(clauses[-1], is_first=len(clauses) == 1)):
            clauses[-1] = f"{clauses[-1]} {piece}"
        else:
            clauses.append(piece)
    if len(clauses) > MAX_CLAUSES:
        clauses[MAX_CLAUSES - 1 :] = [" ".join(clauses[MAX_CLAUSES - 1 :])]
    return tuple(clauses) or (text.strip(),)


def _is_short(piece: str, *, is_first: bool = False) -> bool:
    """Whether a piece has too few words; without spaces, a character counts as a word."""
    return sum(c == " " or c > "\u2e7f" for c in piece) < _MIN_WORDS - 1 - is_first


def _find_pieces(text: str) -> Iterator[slice]:
    """The places between boundaries that are not in a quotation."""
    start = 0
    for boundary in _BOUNDARY.finditer(mask_quotations(text)):
        yield slice(start, boundary.start())
        start = boundary.end()
    yield slice(start, len(text))


def drop_contents(text: str) -> str:
    """Drop long quotations, unless they stand alone: then they are needs in quotation marks."""
    if not has_quotation(text):
        return text
    kept: list[str] = []
    end = 0
    for piece in _find_pieces(text):
        kept += text[end : piece.start], drop_content(text[piece])
        end = piece.stop
    return "".join(kept)
