"""Which languages a text may be in, by letters and trigrams: those of an encoder, or others."""

from __future__ import annotations

import re

from .trigrams import is_foreign

_WORD = re.compile(r"[^\W\d_]+")
# Beyond ASCII, the letters of Dutch, French, German, Italian, Polish, Portuguese, Spanish and
# Turkish, and of Russian. The first row has those that hardly any other language uses.
_DISTINCTIVE = frozenset("ąćęłńśźżğışñãõßœ")
_KNOWN = _DISTINCTIVE | frozenset("çêèàìòùâûîôëïäöüáéíóú\u0307абвгдеёжзийклмнопрстуфхцчшщъыьэюя")
_OTHER_LETTER = re.compile(r"[\u00c0-\u024f\u0400-\u04ff\u1e00-\u1eff]")
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
# A place or a person in an English request may have a foreign letter.
_MIN_SHARE = 0.15
_MIN_COVERAGE = 0.9
_MIN_CYRILLIC_COVERAGE = 0.4


def is_known_language(text: str, coverage: float) -> bool:
    """Whether a text seems to be in one of the languages of the bundled encoder.

    `coverage` says how well its vocabulary reads the text, from 0 to 1.
    """
    if is_foreign(text):
        return False
    words = _WORD.findall(text.casefold())
    if text.isascii() or not words:
        return True
    foreign = sum(any(c not in _KNOWN for c in _OTHER_LETTER.findall(word)) for word in words)
    if foreign >= _MIN_SHARE * len(words) and foreign > (coverage == 1):
        return False
    if _CYRILLIC.search(text):
        return coverage >= _MIN_CYRILLIC_COVERAGE
    return coverage >= _MIN_COVERAGE or not _DISTINCTIVE.isdisjoint("".join(words))
