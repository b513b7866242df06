"""Values: what a request mentions and no capability is named by, and what kinds of things they are.

A value says nothing of what is to be done, but its kind does: whoever asks what `report.pdf` says
wants a tool for files. What is quoted at length is a value as well: the text of a message says
nothing of how it is to be sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from .text import terms, written
from .variants import UNSPOKEN

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
_AT_LENGTH = 5
_ENOUGH = 3

Known = Callable[[str], bool]
"""Whether a tool that the caller may see has a term."""

Prepare = Callable[[str, Known], str]
"""What is made of a request before anything looks for it."""


class Kind(NamedTuple):
    """A kind of value: whether there may be one, what it looks like, and what tools call it."""

    is_hinted: Callable[[str], object]
    shape: re.Pattern[str]
    names: tuple[str, ...]


_KINDS = (
    Kind(
        re.compile("://").search,
        re.compile(r"""["'“‘`<(]?\bhttps?://\w"""),
        ("url", "link", "webpage", "website", "page"),
    ),
    Kind(
        re.compile("@").search,
        re.compile(r"""["'“‘`<(]?(?<![\w.+-])[\w.+-]{1,64}+@[\w-]++\.\w"""),
        ("email", "mail"),
    ),
    Kind(
        re.compile(_ENDING).search,
        re.compile(
            rf"""(?<!\w)["'“‘`][^"'“”‘’`\n]{{1,80}}{_ENDING}["'”’`]"""
            rf"""|(?<![\w./\\~:-])[\w./\\~:-]{{1,120}}?{_ENDING}"""
        ),
        ("file", "document"),
    ),
)


def prepared(text: str, is_known: Known) -> str:
    """The request without what it quotes at length, with the kinds of values."""
    return with_kinds(without_contents(text, is_known), is_known)


def without_contents(text: str, is_known: Known) -> str:
    """The request without quotations of five words or more, if it says something without them."""
    if not _has_quotes(text):
        return text
    left = _CONTENT.sub(lambda m: m[0] if m[0].count(" ") + 1 < _AT_LENGTH else " ", text)
    if left == text:
        return text
    said = dict.fromkeys(terms(left))
    return left if len(said) >= _ENOUGH and sum(map(is_known, said)) >= _ENOUGH - 1 else text


def in_full(text: str, is_known: Known) -> str:
    """The request with `PR` as pull request: encoders know no letters that stand for words.

    They do so only where tools have those words, and not in just any case: `dB` is no database.
    """
    if UNSPOKEN.keys().isdisjoint(written(text.lower())):
        return text

    def full(match: re.Match[str]) -> str:
        word = match[0]
        spelled = UNSPOKEN.get(word.lower(), "") if word.islower() or word[:-1].isupper() else ""
        return spelled if spelled and all(map(is_known, terms(spelled))) else word

    return _ALONE.sub(full, text)


def with_kinds(text: str, is_known: Known) -> str:
    """The request with the kind of a link, address or file said before it, unless it says so.

    It is said in the word that tools use; where they use none, they are not for such things.
    """
    for kind in _KINDS:
        if kind.is_hinted(text) and (found := kind.shape.search(text)):
            name = next((n for n in kind.names if is_known(terms(n)[0])), "")
            if name and not any(terms(n)[0] in terms(text) for n in kind.names):
                text = f"{text[: found.start()]}{name} {text[found.start() :]}"
    return text


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
    if _has_quotes(text):
        text = _QUOTATIONS.sub(" ", text)
    if "://" in text:
        text = _LINKS.sub(" ", text)
    return _ADDRESSES.sub(" ", text) if "@" in text else text


def _has_quotes(text: str) -> bool:
    if '"' in text or "'" in text or "`" in text:
        return True
    return not text.isascii() and _QUOTE.search(text) is not None
