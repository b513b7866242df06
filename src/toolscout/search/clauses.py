"""Taking a request apart: its needs, and what is left of it without the values it mentions."""

from __future__ import annotations

import re

_MOST = 16
_SHORT = 4
_CAP = 2_000

_JOINTS = re.compile(
    r"""
      (?<![.!?؟…])[.!?؟…]++["'”’)\]]*+(?=\s|$)    # sentence ends
    | [。！？]["'”’」』)\]]*                         # and where no space follows them
    | (?:^|\s)(?:[-*–—]|\d{1,2}[.)])\s            # list marks
    | [;；؛\n•·▪‣]+                                # semicolons, lines, bullets
    | [,，、،]?\s(?:and\sthen|and\salso|after\sthat|afterwards|then|also|additionally
        |furthermore|finally|next|and|as\swell\sas
        |und\sdann|und|danach|außerdem|anschließend
        |et\sensuite|et|puis|ensuite|y\sluego|luego|después|además|y|e\sdepois|depois|além\sdisso
        |e\spoi|poi|inoltre|i\spotem|następnie|oraz|potem|ve\ssonra|sonra|ayrıca|en\sdan|daarna
        |и\sзатем|затем|потом|также|и|а\sтакже
        |ثم|وبعد\sذلك|بعد\sذلك|وأيضا|أيضا|كذلك|و
        |그리고|그런\s다음|그\s후)\s
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
    | https?://\S+ | (?<!\S)[^\s@]++@[^\s.]*+\.\S+
    | (?<![\w-])[\w-]*\d[\w.,:%/-]*
    """,
    re.VERBOSE,
)
_SPACE = re.compile(r"\s+")


def clauses(text: str) -> tuple[str, ...]:
    """The parts of a request that may each need a tool; one part if it cannot be taken apart."""
    parts: list[str] = []
    # Single blanks keep the patterns linear: none looks at a stretch of text twice.
    lines = (" ".join(line.split()) for line in text[: 4 * _CAP].splitlines())
    for piece in _JOINTS.split("\n".join(lines)):
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
