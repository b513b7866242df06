"""Quotations in a request: names and values, the text of a message, or needs of their own."""

from __future__ import annotations

import re

# A shorter quotation is a name or a value; a longer one is content if so many other words are left.
_MIN_CONTENT_WORDS = 5
_MIN_OTHER_WORDS = 2
_MARK = re.compile("[\"“„«»「『'‘]")
# Limited: an apostrophe or an open mark that is taken for a quotation must not swallow the request.
_QUOTE = r"""
    (?:"[^"\n]{1,500}" | “[^“”\n]{1,500}” | „[^„“”\n]{1,500}[“”] | «[^«»\n]{1,500}»
    | »[^«»\n]{1,500}« | 「[^「」\n]{1,500}」 | 『[^『』\n]{1,500}』
    | (?<!\w)'[^'\n]{1,300}'(?!\w) | (?<!\w)‘[^‘’\n]{1,300}’(?!\w))
"""
_QUOTATION = re.compile(_QUOTE, re.VERBOSE)
# A quotation alone, perhaps after a word such as "finally" and a comma.
_ALONE = re.compile(
    rf"\W*(?:(?:[a-z]{{1,12}}|\w{{1,2}})[,，]\s*)?{_QUOTE}\W*", re.VERBOSE | re.IGNORECASE
)
_WIDE = re.compile("[\u2e80-\uffff]")
# At most 120 characters: what is not corrected should be a value.
_VALUES = re.compile(
    r"""
    "[^"\n]{1,120}" | “[^”\n]{1,120}” | «[^»\n]{1,120}» | `[^`\n]{1,120}`
    | 「[^」\n]{1,120}」 | 『[^』\n]{1,120}』 | 《[^》\n]{1,120}》
    | (?<!\w)'[^'\n]{1,120}'(?!\w) | ‘[^’\n]{1,120}’(?!\w)
    | https?://\S+ | (?<!\S)[^\s@]++@[^\s.]*+\.\S+
    """,
    re.VERBOSE,
)


def has_quotation(text: str) -> bool:
    """Whether a text may contain a quotation."""
    return _MARK.search(text) is not None


def is_quotation(text: str) -> bool:
    """Whether a text is one quotation, and at most a word before it."""
    return has_quotation(text) and _ALONE.fullmatch(text) is not None


def mask_quotations(text: str) -> str:
    """Replace quotations by as many letters, so that places stay the same."""
    if not has_quotation(text):
        return text
    return _QUOTATION.sub(lambda match: len(match[0]) * "x", text)


def drop_content(text: str) -> str:
    """Drop long quotations, such as the text of a message, unless little else is left."""
    if is_quotation(text):
        return text
    rest = _QUOTATION.sub(lambda m: " " if _count_words(m[0]) >= _MIN_CONTENT_WORDS else m[0], text)
    return rest if _count_words(rest) >= _MIN_OTHER_WORDS else text


def drop_quotations(text: str) -> str:
    """Drop quotations, e-mail addresses and links: a value in them is not a typo."""
    return _VALUES.sub(" ", text)


def _count_words(text: str) -> float:
    """The number of words; without spaces, two characters count as a word."""
    return len(_WIDE.sub(" ", text).split()) + len(_WIDE.findall(text)) / 2
