"""Taking a request apart: its needs, and what is left of it without the values it mentions."""

from __future__ import annotations

import re

_MOST = 16
_SHORT = 4
_CAP = 2_000

_JOINTS = re.compile(
    r"""
      [.!?。！？؟…]+["'”’)\]]*(?:\s+|$)            # sentence ends
    | [;；؛\n\r•·▪‣]+                              # semicolons, lines, bullets
    | (?:^|\s)(?:[-*–—]|\d{1,2}[.)])\s+            # list marks
    | [,，、،]?\s+(?:and\s+then|and\s+also|after\s+that|afterwards|then|also|additionally
        |furthermore|finally|next|and|as\s+well\s+as
        |und\s+dann|und|danach|außerdem|anschließend
        |et\s+ensuite|et|puis|ensuite|y\s+luego|luego|después|además|y|e\s+depois|depois|além\s+disso
        |e\s+poi|poi|inoltre|i\s+potem|następnie|oraz|potem|ve\s+sonra|sonra|ayrıca|en\s+dan|daarna
        |и\s+затем|затем|потом|также|и|а\s+также
        |ثم|وبعد\s+ذلك|بعد\s+ذلك|وأيضا|أيضا|كذلك|و
        |그리고|그런\s+다음|그\s+후)\s+
    | [，、،]                                       # commas that part clauses
    | 然后|並且|并且|以及|同时|接着|另外|還有|还有
    | それから|そして|その後|また
    """,
    re.IGNORECASE | re.VERBOSE,
)
_VALUES = re.compile(
    r"""
      "[^"\n]{1,120}" | “[^”\n]{1,120}” | «[^»\n]{1,120}» | 「[^」\n]{1,120}」 | `[^`\n]{1,120}`
    | (?<!\w)'[^'\n]{1,120}'(?!\w) | ‘[^’\n]{1,120}’(?!\w)
    | https?://\S+ | \S+@\S+\.\S+
    | \b[\w-]*\d[\w.,:%/-]*
    """,
    re.VERBOSE,
)
_SPACE = re.compile(r"\s+")


def clauses(text: str) -> tuple[str, ...]:
    """The parts of a request that may each need a tool; one part if it cannot be taken apart."""
    parts: list[str] = []
    for piece in _JOINTS.split(text[: 4 * _CAP]):
        piece = piece.strip()
        if not piece:
            continue
        if parts and (_is_short(piece) or _is_short(parts[-1])):
            parts[-1] = f"{parts[-1]} {piece}"
        else:
            parts.append(piece)
    return tuple(parts[:_MOST]) or (text.strip(),)


def without_values(text: str) -> str:
    """The request without quoted texts, numbers, addresses and links, which name no capability."""
    left = _SPACE.sub(" ", _VALUES.sub(" ", text)).strip(" ,.;:")
    return left if len(left.split()) > 1 or (len(left) > 3 and not left.isascii()) else text


def _is_short(piece: str) -> bool:
    """Under four words; scripts without spaces count two characters as a word."""
    if piece.isascii():
        return piece.count(" ") < _SHORT - 1
    wide = sum(c > "\u2e7f" for c in piece)
    return piece.count(" ") + wide / 2 < _SHORT - 1
