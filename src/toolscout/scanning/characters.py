"""Characters that hide text, or make it look like other text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from ..catalog.sanitization import strip_hidden
from .findings import Span
from .folding import lookalike

_EMOJI = "\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff#*0-9"
# Flags of regions are a black flag, tag characters and an end tag. Digits and symbols become emoji
# with a variation selector, and so do many signs of CJK text with one of their own.
_ALLOWED = re.compile(
    "\U0001f3f4[\U000e0061-\U000e007a0-9]{2,6}\U000e007f"
    f"|(?<=[{_EMOJI}])[\ufe0e\ufe0f]\u20e3?"
    "|(?<=[\u3400-\u9fff\U00020000-\U0003ffff])[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
    "|(?<=[\u1820-\u18aa])[\u180b-\u180f]"
    "|^\ufeff"
)
_RTL = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_MARKS_OF_RTL = re.compile("[\u200e\u200f\u061c\u202a\u202b\u202c\u2066-\u2069]")
_BRAILLE = re.compile("[\u2801-\u28ff]")
_HARD = re.compile(
    "[\U000e0000-\U000e007f]+"
    "|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}"
    "|[\u202a-\u202e\u2066-\u2069]+"
    "|[\u200b-\u200f\u2060-\u2064\ufeff\u00ad\u180e]{2,}"
    "|(?<=[^\\W\\d_])[\u200b\u200c\u200d\u200e\u200f\u2060-\u206f\ufeff\u00ad\u034f\u180e](?=[^\\W\\d_])"
    "|[\u2061-\u2064\u206a-\u206f\u034f\u115f\u1160\u3164\uffa0\u17b4\u17b5]+"
    "|[\u2800\ufffc\ufff9-\ufffb\U0001d159\U0001d173-\U0001d17a\U00016fe4\U000e0fff]+"
    "|[\ue000-\uf8ff\U000f0000-\U0010ffff]+"
    "|[\ufdd0-\ufdef\ufffe\uffff]|[\ud800-\udfff]"
    "|[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f]"
)
_SOFT = re.compile("[\u200b-\u200f\u2060\u2028\u2029\ufeff\u00ad\ufe00-\ufe0f]")
_STACKED = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u20d0-\u20ff]{4,}")
_STYLED = re.compile(
    "[\U0001d400-\U0001d7ff\u24b6-\u24e9\U0001f130-\U0001f189\uff21-\uff3a\uff41-\uff5a]{4,}"
)
_TERMINAL = re.compile("\x1b|\x9b|\x08")
_WORD = re.compile(r"[^\W\d_]{3,}")
_FAR = re.compile(r"(?:[ \t\u00a0\u3000]{60,}+|(?:[ \t]*+\r?\n){12,}+)\s*+\S")
_NOT_LATIN = re.compile("[\u0370-\u058f\u13a0-\u13ff\ua4d0-\ua4ff]")


def find_hidden_characters(text: str) -> Iterator[Span]:
    """Characters that serve to hide text."""
    if text.isascii() and text.replace("\n", " ").isprintable():
        return
    for match in _HARD.finditer(_blank_allowed(text)):
        yield Span(*match.span())


def find_stray_characters(text: str) -> Iterator[Span]:
    """Invisible or unusual characters that may be innocent."""
    if text.isascii():
        return
    bare = _blank_allowed(text)
    for pattern in (_SOFT, _STACKED, _STYLED):
        for match in pattern.finditer(bare):
            yield Span(*match.span())


def _blank_allowed(text: str) -> str:
    """The text with characters blanked that belong to emoji or to a script that needs them."""
    blank = _ALLOWED.sub(lambda match: "x" * len(match[0]), text)
    if _RTL.search(text):
        # Directional marks are ordinary beside right-to-left text, but overrides are not.
        blank = _MARKS_OF_RTL.sub("x", blank)
    if _BRAILLE.search(text):
        blank = blank.replace("\u2800", "x")
    return _blank_joiners(text, blank)


def _blank_joiners(text: str, blank: str) -> str:
    """Blank the joiners that emoji or a script need; sanitization knows which."""
    if "\u200c" not in blank and "\u200d" not in blank:
        return blank
    characters = list(blank)
    for index, character in enumerate(text):
        if character in "\u200c\u200d":
            around = text[max(index - 1, 0) : index + 2]
            if character in strip_hidden(around.replace("\ufe0f", "\u2764")):
                characters[index] = "x"
    return "".join(characters)


def find_terminal_escapes(text: str) -> Iterator[Span]:
    """Control characters that a terminal obeys."""
    return (Span(*match.span()) for match in _TERMINAL.finditer(text))


def find_mixed_scripts(text: str) -> Iterator[Span]:
    """Words in which letters that only look Latin stand among Latin ones."""
    if text.isascii() or not _NOT_LATIN.search(text):
        return
    for match in _WORD.finditer(text):
        if _is_mixed(match[0]):
            yield Span(*match.span())


def _is_mixed(word: str) -> bool:
    latin = [i for i, c in enumerate(word) if c.isascii()]
    foreign = [i for i, c in enumerate(word) if not c.isascii() and _NOT_LATIN.match(c)]
    if not latin or not foreign or not all(lookalike(word[i]) for i in foreign):
        return False
    # An ending in another script is ordinary ("URLа"), and so is a Greek index ("TNFα").
    if foreign[0] > latin[-1]:
        return False
    is_greek = all(unicodedata.name(word[i], "").startswith("GREEK") for i in foreign)
    # "ΔT", "αMSH": a Greek letter before Latin ones is a symbol; in a longer word it is not.
    return not (is_greek and foreign == [0] and len(word) < 6)


def find_far_away_text(text: str) -> Iterator[Span]:
    """White space so long that a reader does not see what follows it."""
    return (Span(*match.span()) for match in _FAR.finditer(text.rstrip()))
