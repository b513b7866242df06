"""Prepare a request for ranking: split it into clauses, and take values out of its words."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from typing import NamedTuple

from .analyzer import terms, tokenize
from .variants import ABBREVIATIONS

_MAX_CLAUSES = 16
_MIN_CLAUSE_WORDS = 4
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


def split_clauses(text: str) -> tuple[str, ...]:
    """The parts of a request that may each need a tool; one part if it cannot be taken apart."""
    parts: list[str] = []
    text = text[: 4 * _CAP]
    if "  " in text or not text.isprintable():  # single blanks: no pattern reads a stretch twice
        text = "\n".join([" ".join(line.split()) for line in text.splitlines()])
    for piece in _split_at_joints(text):
        piece = piece.strip()
        if not piece:
            continue
        if parts and (_is_short(piece) or _is_short(parts[-1])):
            parts[-1] = f"{parts[-1]} {piece}"
        else:
            parts.append(piece)
    if len(parts) > _MAX_CLAUSES:
        parts[_MAX_CLAUSES - 1 :] = [" ".join(parts[_MAX_CLAUSES - 1 :])]
    return tuple(parts) or (text.strip(),)


def _split_at_joints(text: str) -> list[str]:
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
        return piece.count(" ") < _MIN_CLAUSE_WORDS - 1
    wide = sum(c > "\u2e7f" for c in piece)
    return piece.count(" ") + wide / 2 < _MIN_CLAUSE_WORDS - 1


# A class in front lets a search skip all that begins no quotation.
_QUOTED = r"""
    ["“«「`'‘](?:
        (?<=")[^"\n]{1,120}" | (?<=“)[^”\n]{1,120}” | (?<=«)[^»\n]{1,120}»
      | (?<=「)[^」\n]{1,120}」 | (?<=`)[^`\n]{1,120}`
      | (?<=')(?<!\w')[^'\n]{1,120}'(?!\w) | (?<=‘)[^’\n]{1,120}’(?!\w)
    )"""
_LINK = r"https?://\S+"
_ADDRESS = r"(?<!\S)[^\s@]++@[^\s.]*+\.\S+"
_QUOTATIONS = re.compile(_QUOTED, re.VERBOSE)
_LINKS = re.compile(_LINK)
_ADDRESSES = re.compile(_ADDRESS)
_VALUES = re.compile(
    rf"{_QUOTED} | {_LINK} | {_ADDRESS} | (?<![\w-])[\w-]*\d[\w.,:%/-]*", re.VERBOSE
)
_QUOTES = "\"“”«»「」`'‘’"
_SPACE = re.compile(r"\s+")

_ENDINGS = """
avi bak bmp cfg conf csv db docx? exe flac gif gz html? ini ipynb jpe?g jsonl? log md mkv mov mp3
mp4 odt parquet pdf png pptx? py rar rst rtf sh sql sqlite svg tar tiff? toml tsv tsx? txt wav webp
xlsx? xml ya?ml zip
"""
_ENDING = rf"\.(?i:{'|'.join(_ENDINGS.split())})(?!\w|[./\\-]\w)"

# What stands between quotes that open before a word and close behind one; apostrophes may be in it.
_CONTENT = re.compile(
    r"""
    (?<![^\s(\[:,])(?:
        "(?=\S)[^"\n]{1,600}(?<=\S)" | “[^”\n]{1,600}” | «[^»\n]{1,600}» | `[^`\n]{1,600}`
      | '(?=\S)(?:[^'\n]|(?<=\w)'(?=\w)){1,600}(?<=\S)' | ‘(?:[^’\n]|’(?=\w)){1,600}’
    )(?!\w)""",
    re.VERBOSE,
)
_QUOTE = re.compile("[“«「‘]")
# A word that is no part of a name, link or address.
_ALONE = re.compile(r"(?<![\w./@:-])[^\W_]+(?![\w/@:-]|\.\w)")
_MIN_QUOTED_WORDS = 5
_MIN_TERMS_LEFT = 3

IsKnownTerm = Callable[[str], bool]
"""Whether a tool that the caller may see has a term."""

QueryPreprocessor = Callable[[str, IsKnownTerm], str]
"""What is made of a request before anything looks for it."""


class ValueKind(NamedTuple):
    """A kind of value: whether there may be one, what it looks like, and what tools call it."""

    may_occur: Callable[[str], object]
    shape: re.Pattern[str]
    names: tuple[str, ...]


_KINDS = (
    ValueKind(
        re.compile("://").search,
        re.compile(r"""["'“‘`<(]?\bhttps?://\w"""),
        ("url", "link", "webpage", "website", "page"),
    ),
    ValueKind(
        re.compile("@").search,
        re.compile(r"""["'“‘`<(]?(?<![\w.+-])[\w.+-]{1,64}+@[\w-]++\.\w"""),
        ("email", "mail"),
    ),
    ValueKind(
        re.compile(_ENDING).search,
        re.compile(
            rf"""(?<!\w)["'“‘`][^"'“”‘’`\n]{{1,80}}{_ENDING}["'”’`]"""
            rf"""|(?<![\w./\\~:-])[\w./\\~:-]{{1,120}}?{_ENDING}"""
        ),
        ("file", "document"),
    ),
)


def prepare_query(text: str, is_known: IsKnownTerm) -> str:
    """The request without what it quotes at length, with the kinds of values."""
    return add_value_kinds(drop_long_quotations(text, is_known), is_known)


def drop_long_quotations(text: str, is_known: IsKnownTerm) -> str:
    """The request without quotations of five words or more, if it says something without them."""
    if not _has_quotes(text):
        return text
    left = _CONTENT.sub(lambda m: m[0] if m[0].count(" ") + 1 < _MIN_QUOTED_WORDS else " ", text)
    if left == text:
        return text
    said = dict.fromkeys(terms(left))
    return (
        left
        if len(said) >= _MIN_TERMS_LEFT and sum(map(is_known, said)) >= _MIN_TERMS_LEFT - 1
        else text
    )


def expand_abbreviations(text: str, is_known: IsKnownTerm) -> str:
    """The request with `PR` as pull request: encoders know no letters that stand for words.

    They do so only where tools have those words, and not in just any case: `dB` is no database.
    """
    if ABBREVIATIONS.keys().isdisjoint(tokenize(text.lower())):
        return text

    def expand(match: re.Match[str]) -> str:
        word = match[0]
        spelled = (
            ABBREVIATIONS.get(word.lower(), "") if word.islower() or word[:-1].isupper() else ""
        )
        return spelled if spelled and all(map(is_known, terms(spelled))) else word

    return _ALONE.sub(expand, text)


def add_value_kinds(text: str, is_known: IsKnownTerm) -> str:
    """The request with the kind of a link, address or file said before it, unless it says so.

    It is said in the word that tools use; where they use none, they are not for such things.
    """
    for kind in _KINDS:
        if kind.may_occur(text) and (found := kind.shape.search(text)):
            name = next((n for n in kind.names if is_known(terms(n)[0])), "")
            if name and not any(terms(n)[0] in terms(text) for n in kind.names):
                text = f"{text[: found.start()]}{name} {text[found.start() :]}"
    return text


def drop_values(text: str, *, is_kept: Callable[[str], bool] = lambda _: False) -> str:
    """The request without quoted texts, numbers, addresses and links, which name no capability.

    Those that do all the same may be kept, without their quotes.
    """

    def replacement(match: re.Match[str]) -> str:
        value = match[0].strip(_QUOTES)
        return f" {value} " if is_kept(value) else " "

    left = _SPACE.sub(" ", _VALUES.sub(replacement, text)).strip(" ,.;:")
    return left if len(left.split()) > 1 or (len(left) > 3 and not left.isascii()) else text


def drop_quotations(text: str) -> str:
    """The text without what is quoted, addresses and links."""
    if _has_quotes(text):
        text = _QUOTATIONS.sub(" ", text)
    if "://" in text:
        text = _LINKS.sub(" ", text)
    return _ADDRESSES.sub(" ", text) if "@" in text else text


def _has_quotes(text: str) -> bool:
    if '"' in text or "'" in text or "`" in text:
        return True
    return not text.isascii() and _QUOTE.search(text) is not None
