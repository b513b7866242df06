"""Query preprocessing: split a request into clauses, and treat the values in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from typing import NamedTuple

from .analyzer import terms, tokenize
from .variants import ABBREVIATIONS

_MAX_CLAUSES = 16
# A shorter piece names no task of its own ("and then stop") and joins its neighbour.
_MIN_CLAUSE_WORDS = 4
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
    | [，、،]                                       # commas that separate clauses
    | 然后|並且|并且|以及|同时|接着|另外|還有|还有
    | それから|そして|その後|また
    """,
    re.IGNORECASE | re.VERBOSE,
)
# The same for lower-case ASCII text, as two patterns that begin with a fixed set of characters: the
# regex engine then skips everything else, which is several times faster.
_ASCII = sorted((j for j in _JOINERS.split("|") if j.isascii()), key=lambda j: (j[0], -len(j)))
_ASCII_JOINERS = "|".join(
    f"{first}(?:{'|'.join(j[1:] for j in joiners)})"
    for first, joiners in groupby(_ASCII, key=lambda j: j[0])
)
_SIGN_BOUNDARY = re.compile(
    rf"""
    [.!?;\n,](?:
        (?<=[.!?])(?<![.!?][.!?])[.!?]*+["')\]]*+(?=\s|$)
      | (?<=\n)(?:[-*]|\d{{1,2}}[.)])(?=\s)
      | (?<=[;\n])[;\n]*
      | (?<=,)(?=\ (?:{_ASCII_JOINERS})\s)
    )""",
    re.VERBOSE,
)
_SPACE_BOUNDARY = re.compile(rf" (?:{_ASCII_JOINERS}|[-*]|\d{{1,2}}[.)])(?=\s)")


def split_clauses(text: str) -> tuple[str, ...]:
    """Split a request into clauses that may each need a tool of their own."""
    clauses: list[str] = []
    text = text[:_MAX_TEXT_CHARS]
    # Single spaces only, so that the patterns above take linear time.
    if "  " in text or not text.isprintable():
        text = "\n".join([" ".join(line.split()) for line in text.splitlines()])
    for piece in filter(None, map(str.strip, _split_at_boundaries(text))):
        if clauses and (_is_short(piece) or _is_short(clauses[-1])):
            clauses[-1] = f"{clauses[-1]} {piece}"
        else:
            clauses.append(piece)
    if len(clauses) > _MAX_CLAUSES:
        clauses[_MAX_CLAUSES - 1 :] = [" ".join(clauses[_MAX_CLAUSES - 1 :])]
    return tuple(clauses) or (text.strip(),)


def _split_at_boundaries(text: str) -> list[str]:
    if not text.isascii():
        return _BOUNDARY.split(text)
    text = f"\n{text.lstrip()}"  # a list mark at the very beginning follows a line break too
    lowered = text.lower()
    spans = [match.span() for match in _SIGN_BOUNDARY.finditer(lowered)]
    spans += [match.span() for match in _SPACE_BOUNDARY.finditer(lowered)]
    pieces: list[str] = []
    position = 0
    for start, end in sorted(spans):
        if position <= start:  # otherwise it overlaps the boundary before
            pieces.append(text[position:start])
            position = end
    return [*pieces, text[position:]]


def _is_short(piece: str) -> bool:
    """Whether a piece has under four words; without spaces, two characters count as a word."""
    wide = 0 if piece.isascii() else sum(c > "\u2e7f" for c in piece)
    return piece.count(" ") + wide / 2 < _MIN_CLAUSE_WORDS - 1


# Begins with a character class, so that the regex engine skips everything that opens no quotation.
# At most 120 characters: an apostrophe that is taken for a quote must not swallow the request.
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

_FILE_ENDINGS = """
avi bak bmp cfg conf csv db docx? exe flac gif gz html? ini ipynb jpe?g jsonl? log md mkv mov mp3
mp4 odt parquet pdf png pptx? py rar rst rtf sh sql sqlite svg tar tiff? toml tsv tsx? txt wav webp
xlsx? xml ya?ml zip
"""
_ENDING = rf"\.(?i:{'|'.join(_FILE_ENDINGS.split())})(?!\w|[./\\-]\w)"

# Longer quotations. Quotes open before a word and close after one, so apostrophes may be inside.
_QUOTATION = re.compile(
    r"""
    (?<![^\s(\[:,])(?:
        "(?=\S)[^"\n]{1,600}(?<=\S)" | “[^”\n]{1,600}” | «[^»\n]{1,600}» | `[^`\n]{1,600}`
      | '(?=\S)(?:[^'\n]|(?<=\w)'(?=\w)){1,600}(?<=\S)' | ‘(?:[^’\n]|’(?=\w)){1,600}’
    )(?!\w)""",
    re.VERBOSE,
)
_OPENING_QUOTE = re.compile("[“«「‘]")
# A word that is not part of an identifier, link or address.
_SEPARATE_WORD = re.compile(r"(?<![\w./@:-])[^\W_]+(?![\w/@:-]|\.\w)")
# Shorter quotations are titles and names, which may say what is wanted.
_MIN_QUOTED_WORDS = 5
_MIN_TERMS_LEFT = 3

IsKnownTerm = Callable[[str], bool]
"""Whether a visible tool has a term."""

QueryPreprocessor = Callable[[str, IsKnownTerm], str]
"""Rewrites a request before it is searched."""


class ValueKind(NamedTuple):
    """A kind of value: a quick test for it, its pattern, and the words that tools use for it."""

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
    """Drop long quotations, and name the kinds of values: the default preprocessing."""
    return add_value_kinds(drop_long_quotations(text, is_known), is_known)


def drop_long_quotations(text: str, is_known: IsKnownTerm) -> str:
    """Drop quotations of five words or more, if enough is left without them."""
    # "Send Ann a note that says '…'" is about sending, whatever the note is about.
    if not _has_quotes(text):
        return text
    left = _QUOTATION.sub(lambda m: m[0] if m[0].count(" ") + 1 < _MIN_QUOTED_WORDS else " ", text)
    if left == text:
        return text
    rest = dict.fromkeys(terms(left))
    is_enough = len(rest) >= _MIN_TERMS_LEFT and sum(map(is_known, rest)) >= _MIN_TERMS_LEFT - 1
    return left if is_enough else text


def expand_abbreviations(text: str, is_known: IsKnownTerm) -> str:
    """Write out abbreviations, such as `PR`, whose words the catalog has; for embedders."""
    if ABBREVIATIONS.keys().isdisjoint(tokenize(text.lower())):
        return text

    def expand(match: re.Match[str]) -> str:
        word = match[0]
        # `db`, `DB` and `DBs`, but not `dB`, which is a decibel.
        is_abbreviation = word.islower() or word[:-1].isupper()
        full = ABBREVIATIONS.get(word.lower(), "") if is_abbreviation else ""
        return full if full and all(map(is_known, terms(full))) else word

    return _SEPARATE_WORD.sub(expand, text)


def add_value_kinds(text: str, is_known: IsKnownTerm) -> str:
    """Name the kind of a link, e-mail address or file before it, unless the request does."""
    # "What's inside 'report.docx'?" names no capability, but a file does. The word is one that
    # tools use; if they use none, no tool is for such values.
    for kind in _KINDS:
        if kind.may_occur(text) and (found := kind.shape.search(text)):
            name = next((n for n in kind.names if is_known(terms(n)[0])), "")
            if name and not any(terms(n)[0] in terms(text) for n in kind.names):
                text = f"{text[: found.start()]}{name} {text[found.start() :]}"
    return text


def drop_values(text: str, *, is_kept: Callable[[str], bool] = lambda _: False) -> str:
    """Drop quoted texts, numbers, addresses and links: they name no capability.

    Values for which `is_kept` is true stay, without their quotes.
    """

    def replacement(match: re.Match[str]) -> str:
        value = match[0].strip(_QUOTES)
        return f" {value} " if is_kept(value) else " "

    left = " ".join(_VALUES.sub(replacement, text).split()).strip(" ,.;:")
    # A request that consists almost only of values stays unchanged.
    return left if len(left.split()) > 1 or (len(left) > 3 and not left.isascii()) else text


def drop_quotations(text: str) -> str:
    """Drop quotations, e-mail addresses and links."""
    if _has_quotes(text):
        text = _QUOTATIONS.sub(" ", text)
    if "://" in text:
        text = _LINKS.sub(" ", text)
    return _ADDRESSES.sub(" ", text) if "@" in text else text


def _has_quotes(text: str) -> bool:
    if '"' in text or "'" in text or "`" in text:
        return True
    return not text.isascii() and _OPENING_QUOTE.search(text) is not None
