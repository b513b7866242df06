"""Taking a request apart: its needs, and what is left of it without the values it mentions."""

from __future__ import annotations

import re
from collections.abc import Callable

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
    | (?:^|\s)(?:[-*–—]|\d{{1,2}}[.)])\s          # list marks
    | [;；؛\n•·▪‣]+                                # semicolons, lines, bullets
    | [,，、،]?\s(?:{_JOINERS})\s
    | [，、،]                                       # commas that part clauses
    | 然后|並且|并且|以及|同时|接着|另外|還有|还有
    | それから|そして|その後|また
    """,
    re.IGNORECASE | re.VERBOSE,
)
# The same for small ASCII letters: a class in front lets the search skip all that begins no joint.
_PLAIN = "|".join(j for j in _JOINERS.split("|") if j.isascii())
_PLAIN_JOINTS = re.compile(
    rf"""
    [.!?;\n,\s](?:
        (?<=[.!?])(?<![.!?][.!?])[.!?]*+["')\]]*+(?=\s|$)
      | (?<=\s)(?:[-*]|\d{{1,2}}[.)])\s
      | (?<=[;\n])[;\n]*
      | (?:(?<=\s)|(?<=,)\s)(?:{_PLAIN})\s
    )""",
    re.VERBOSE,
)
_QUOTED = r"""
      "[^"\n]{1,120}" | “[^”\n]{1,120}” | «[^»\n]{1,120}» | 「[^」\n]{1,120}」 | `[^`\n]{1,120}`
    | (?<!\w)'[^'\n]{1,120}'(?!\w) | ‘[^’\n]{1,120}’(?!\w)
    | https?://\S+ | (?<!\S)[^\s@]++@[^\s.]*+\.\S+
"""
_QUOTATIONS = re.compile(_QUOTED, re.VERBOSE)
_QUOTE = re.compile(r"""["“«「`'‘@]|://""")  # one of these is in each
_VALUES = re.compile(rf"{_QUOTED} | (?<![\w-])[\w-]*\d[\w.,:%/-]*", re.VERBOSE)
_QUOTES = "\"“”«»「」`'‘’"
_SPACE = re.compile(r"\s+")


def clauses(text: str) -> tuple[str, ...]:
    """The parts of a request that may each need a tool; one part if it cannot be taken apart."""
    parts: list[str] = []
    # Single blanks keep the patterns linear: none looks at a stretch of text twice.
    lines = [" ".join(line.split()) for line in text[: 4 * _CAP].splitlines()]
    for piece in _pieces("\n".join(lines)):
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
    ends = [place for match in _PLAIN_JOINTS.finditer(text.lower()) for place in match.span()]
    starts = zip([0, *ends[1::2]], [*ends[::2], len(text)], strict=True)
    return [text[start:end] for start, end in starts]


def without_values(text: str, *, is_kept: Callable[[str], bool] = lambda _: False) -> str:
    """The request without quoted texts, numbers, addresses and links, which name no capability.

    Those that do all the same may be kept, without their quotes.
    """

    def rest(match: re.Match[str]) -> str:
        value = match[0].strip(_QUOTES)
        return f" {value} " if is_kept(value) else " "

    left = _SPACE.sub(" ", _VALUES.sub(rest, text)).strip(" ,.;:")
    return left if len(left.split()) > 1 or (len(left) > 3 and not left.isascii()) else text


def without_quotations(text: str) -> str:
    """The text without what is quoted, addresses and links."""
    return _QUOTATIONS.sub(" ", text) if _QUOTE.search(text) else text


def _is_short(piece: str) -> bool:
    """Under four words; scripts without spaces count two characters as a word."""
    if piece.isascii():
        return piece.count(" ") < _SHORT - 1
    wide = sum(c > "\u2e7f" for c in piece)
    return piece.count(" ") + wide / 2 < _SHORT - 1
