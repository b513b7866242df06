"""Fold text to what a reader takes it for: lower case, no accents, look-alike letters replaced."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from ..catalog.sanitization import strip_hidden
from .findings import Span

# Letters of other scripts that look like Latin ones, in lower case. Capitals follow by themselves
# where both cases look alike; the others are listed.
_LOOKALIKES = {
    "а": "a", "е": "e", "о": "o", "р": "p", "с": "c", "у": "y", "х": "x", "ѕ": "s", "і": "i",
    "ј": "j", "ԁ": "d", "ԛ": "q", "ԝ": "w", "һ": "h", "ӏ": "l", "ѵ": "v", "ɡ": "g", "ո": "n",
    "օ": "o", "ս": "u", "հ": "h", "ց": "g", "ք": "p", "ɑ": "a", "ı": "i", "ο": "o", "ν": "v",
    "α": "a", "ρ": "p", "ι": "i", "υ": "u", "τ": "t", "χ": "x", "ε": "e", "η": "n", "ω": "w",
    "А": "a", "В": "b", "Е": "e", "К": "k", "М": "m", "Н": "h", "О": "o", "Р": "p", "С": "c",
    "Т": "t", "Х": "x", "У": "y", "І": "i", "Ѕ": "s", "Ј": "j", "Α": "a", "Β": "b", "Ε": "e",
    "Ζ": "z", "Η": "h", "Ι": "i", "Κ": "k", "Μ": "m", "Ν": "n", "Ο": "o", "Ρ": "p", "Τ": "t",
    "Υ": "y", "Χ": "x", "Ꭺ": "a", "Ꭼ": "e", "Ꮇ": "m", "Ꮪ": "s", "Ꮯ": "c", "Ꭲ": "t", "Ꮋ": "h",
    "Ꮢ": "r", "Ꮩ": "v", "Ꭰ": "d", "Ꮤ": "w", "Ꮮ": "l", "Ꮲ": "p", "ꓐ": "b", "ꓑ": "p", "ꓓ": "d",
    "ⅼ": "l", "ⅰ": "i", "ⅽ": "c", "ⅾ": "d", "ⅿ": "m", "ǃ": "!", "∕": "/", "⁄": "/", "․": ".",
    "˗": "-", "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "−": "-", "’": "'", "‘": "'",
    "“": '"', "”": '"', "`": "`", "ᴀ": "a", "ʙ": "b", "ᴄ": "c", "ᴅ": "d", "ᴇ": "e", "ꜰ": "f",
    "ɢ": "g", "ʜ": "h", "ɪ": "i", "ᴊ": "j", "ᴋ": "k", "ʟ": "l", "ᴍ": "m", "ɴ": "n", "ᴏ": "o",
    "ᴘ": "p", "ʀ": "r", "ꜱ": "s", "ᴛ": "t", "ᴜ": "u", "ᴠ": "v", "ᴡ": "w", "ʏ": "y", "ᴢ": "z",
}  # fmt: skip
# Anything but a single space or a single line break.
_SPACES = re.compile(r"\s{2,}|[^\S \n]")
_PUNCTUATION = str.maketrans({k: v for k, v in _LOOKALIKES.items() if not k.isalpha()})
_LETTERS = {k: v for k, v in _LOOKALIKES.items() if k.isalpha()}
_ALL_LETTERS = str.maketrans(_LETTERS)
# Always taken for Latin: small capitals, Roman numerals, letters of rare scripts.
_ALWAYS = str.maketrans(
    {k: v for k, v in _LETTERS.items() if not ("\u0370" <= k <= "\u052f" or k in "ոօսհցք")}
)


def lookalike(letter: str) -> str:
    """The Latin letter that a letter of another script looks like, or nothing."""
    return _LETTERS.get(letter, "")


def fold(text: str) -> str:
    """Folded text: a word of look-alike letters becomes Latin if Latin letters are in it, and any
    run of white space is one space or one line break."""
    return _collapse(_fold_letters(text))


def _collapse(text: str) -> str:
    if not _SPACES.search(text):
        return text
    return _SPACES.sub(lambda match: "\n" if "\n" in match[0] else " ", text)


def _fold_letters(text: str) -> str:
    if text.isascii():
        return text.lower()
    words = _fold_words(strip_hidden(unicodedata.normalize("NFKC", text)))
    plain = unicodedata.normalize("NFD", words.translate(_PUNCTUATION).translate(_ALWAYS))
    bare = "".join(c for c in plain if unicodedata.category(c) != "Mn")
    return unicodedata.normalize("NFC", bare.casefold().replace("ß", "ss").replace("đ", "d"))


def fold_lookalikes(text: str) -> str:
    """Folded text with all look-alike letters taken for Latin ones."""
    return fold(strip_hidden(unicodedata.normalize("NFKC", text)).translate(_ALL_LETTERS))


def _fold_words(text: str) -> str:
    if not any(c in _LETTERS for c in text):
        return text
    words = text.split(" ")
    return " ".join(
        w.translate(_ALL_LETTERS) if any("a" <= c <= "z" or "A" <= c <= "Z" for c in w) else w
        for w in words
    )


@dataclass(frozen=True, slots=True)
class FoldedText:
    """Folded text with the text that it was made from."""

    source: str
    text: str

    def locate(self, span: Span) -> Span:
        """The place in the source; nearly so if folding moved characters around."""
        if len(self.source) == len(self.text) and self.source.isascii():
            return span
        origins = _find_origins(self.source)
        if len(origins) != len(self.text):
            ratio = len(self.source) / max(len(self.text), 1)
            return Span(int(span.start * ratio), min(len(self.source), int(span.end * ratio) + 1))
        start = origins[span.start] if span.start < len(origins) else len(self.source)
        return Span(start, max(origins[span.end - 1] + 1, start) if span.end else start)


def _find_origins(source: str) -> list[int]:
    """For each character of the folded text, the index of the one in the source."""
    origins: list[int] = []
    was_space = False
    for index, character in enumerate(source):
        folded = _fold_character(character)
        if folded.isspace() and was_space:
            continue
        was_space = folded.isspace() or (was_space and not folded)
        origins += [index] * len(folded)
    return origins


@lru_cache(maxsize=4_096)
def _fold_character(character: str) -> str:
    return fold(character)
