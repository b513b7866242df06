"""Taking a request apart: its clauses may each need a tool."""

from __future__ import annotations

import re
from itertools import groupby

_MOST = 16
_SHORT = 4
_CAP = 2_000

_CONNECTIVES = """
and then|and also|after that|afterwards|then|also|additionally|furthermore|finally|next|and
as well as|und dann|und|danach|außerdem|anschließend|et ensuite|et|puis|ensuite|y luego|luego
después|además|y|e depois|depois|além disso|e poi|poi|inoltre|i potem|następnie|oraz|potem
ve sonra|sonra|ayrıca|en dan|daarna|и затем|затем|потом|также|и|а также
ثم|وبعد ذلك|بعد ذلك|وأيضا|أيضا|كذلك|و|그리고|그런 다음|그 후
"""
_JOINERS = _CONNECTIVES.strip().replace("\n", "|").replace(" ", r"\s")
_JOINTS = re.compile(
    rf"""
      (?<![.!?؟…])[.!?؟…]++["'”’)\]]*+(?=\s|$)    # sentence ends
    | [。！？]["'”’」』)\]]*                         # and where no space follows them
    | (?:^|\s)(?:[-*–—]|\d{{1,2}}[.)])(?=\s)      # list marks
    | [;；؛\n•·▪‣]+                                # semicolons, lines, bullets
    | [,，、،]?\ (?:{_JOINERS})(?=\s)
    | [，、،]                                       # commas that part clauses
    | 然后|並且|并且|以及|同时|接着|另外|還有|还有
    | それから|そして|その後|また
    """,
    re.IGNORECASE | re.VERBOSE,
)
# The same for small ASCII letters, in two: what begins with a sign, and what follows a blank. The
# search for either can skip all that does not begin so.
_ASCII = sorted((j for j in _JOINERS.split("|") if j.isascii()), key=lambda j: (j[0], -len(j)))
_PLAIN = "|".join(
    f"{first}(?:{'|'.join(j[1:] for j in joiners)})"
    for first, joiners in groupby(_ASCII, key=lambda j: j[0])
)
_SIGNS = re.compile(
    rf"""
    [.!?;\n,](?:
        (?<=[.!?])(?<![.!?][.!?])[.!?]*+["')\]]*+(?=\s|$)
      | (?<=\n)(?:[-*]|\d{{1,2}}[.)])(?=\s)
      | (?<=[;\n])[;\n]*
      | (?<=,)(?=\ (?:{_PLAIN})\s)
    )""",
    re.VERBOSE,
)
_BEHIND_BLANKS = re.compile(rf" (?:{_PLAIN}|[-*]|\d{{1,2}}[.)])(?=\s)")


def clauses(text: str) -> tuple[str, ...]:
    """The parts of a request that may each need a tool; one part if it cannot be taken apart."""
    parts: list[str] = []
    text = text[: 4 * _CAP]
    if "  " in text or not text.isprintable():  # single blanks: no pattern reads a stretch twice
        text = "\n".join([" ".join(line.split()) for line in text.splitlines()])
    for piece in _pieces(text):
        piece = piece.strip()
        if not piece:
            continue
        if parts and (_is_short(piece) or _is_short(parts[-1])):
            parts[-1] = f"{parts[-1]} {piece}"
        else:
            parts.append(piece)
    if len(parts) > _MOST:
        parts[_MOST - 1 :] = [" ".join(parts[_MOST - 1 :])]
    return tuple(parts) or (text.strip(),)


def _pieces(text: str) -> list[str]:
    """What stands between the joints."""
    if not text.isascii():
        return _JOINTS.split(text)
    text = f"\n{text.lstrip()}"
    small = text.lower()
    joints = [match.span() for match in _SIGNS.finditer(small)]
    joints += [match.span() for match in _BEHIND_BLANKS.finditer(small)]
    pieces: list[str] = []
    begins = 0
    for start, end in sorted(joints):
        if begins <= start:  # else it is part of the joint before
            pieces.append(text[begins:start])
            begins = end
    return [*pieces, text[begins:]]


def _is_short(piece: str) -> bool:
    """Under four words; scripts without spaces count two characters as a word."""
    if piece.isascii():
        return piece.count(" ") < _SHORT - 1
    wide = sum(c > "\u2e7f" for c in piece)
    return piece.count(" ") + wide / 2 < _SHORT - 1
