"""Split a request into clauses, each of which may need a tool of its own."""

from __future__ import annotations

import re

MAX_CLAUSES = 32
# A shorter piece names no task of its own ("and then stop") and joins its neighbour.
_MIN_WORDS = 4
_MAX_TEXT_CHARS = 8_000

# "and then", "also", "after that" in the languages of the bundled encoder.
_CONNECTIVES = """
and then|and also|after that|afterwards|then|also|additionally|furthermore|finally|next|and
as well as|und dann|und|danach|außerdem|anschließend|et ensuite|et|puis|ensuite|y luego|luego
después|además|y|e depois|depois|além disso|e poi|poi|inoltre|i potem|następnie|oraz|potem
ve sonra|sonra|ayrıca|en dan|daarna|и затем|затем|потом|также|и|а также
ثم|وبعد ذلك|بعد ذلك|وأيضا|أيضا|كذلك|و|그리고|그런 다음|그 후
"""
_JOINERS = _CONNECTIVES.strip().replace("\n", "|").replace(" ", r"\s")
_BOUNDARY = re.compile(
    rf"""
      (?<![.!?؟…])[.!?؟…]++["'”’)\]]*+(?=\s|$)    # sentence ends
    | [。！？]["'”’」』)\]]*                         # and where no space follows them
    | (?:^|\s)(?:[-*–—]|\d{{1,2}}[.)])(?=\s)      # list marks
    | [;；؛\n•·▪‣]+                                # semicolons, lines, bullets
    | [,，、،]?\ (?:{_JOINERS})(?=\s)
    | 然后|並且|并且|以及|同时|接着|另外|還有|还有|それから|そして|その後|また
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
    for piece in filter(None, map(str.strip, _BOUNDARY.split(text))):
        if clauses and (_is_short(piece) or _is_short(clauses[-1])):
            clauses[-1] = f"{clauses[-1]} {piece}"
        else:
            clauses.append(piece)
    if len(clauses) > MAX_CLAUSES:
        clauses[MAX_CLAUSES - 1 :] = [" ".join(clauses[MAX_CLAUSES - 1 :])]
    return tuple(clauses) or (text.strip(),)


def _is_short(piece: str) -> bool:
    """Whether a piece has under four words; without spaces, two characters count as a word."""
    wide = 0 if piece.isascii() else sum(c > "\u2e7f" for c in piece)
    return piece.count(" ") + wide / 2 < _MIN_WORDS - 1


# At most 120 characters: an apostrophe that is taken for a quote must not swallow the request.
_QUOTATIONS = re.compile(
    r"""
    "[^"\n]{1,120}" | “[^”\n]{1,120}” | «[^»\n]{1,120}» | `[^`\n]{1,120}`
    | 「[^」\n]{1,120}」 | 『[^』\n]{1,120}』 | 《[^》\n]{1,120}》
    | (?<!\w)'[^'\n]{1,120}'(?!\w) | ‘[^’\n]{1,120}’(?!\w)
    | https?://\S+ | (?<!\S)[^\s@]++@[^\s.]*+\.\S+
    """,
    re.VERBOSE,
)


def drop_quotations(text: str) -> str:
    """Drop quotations, e-mail addresses and links: a value in them is not a typo."""
    return _QUOTATIONS.sub(" ", text)
