"""Which languages a text may be in, by letters and trigrams: those of an encoder, or others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .trigrams import is_familiar, is_foreign, is_unfamiliar

_WORD = re.compile(r"[^\W\d_]+")
# Beyond ASCII, the letters of Dutch, French, German, Italian, Polish, Portuguese, Spanish and
# Turkish, and of Russian. The first row has those that hardly any other language uses.
_DISTINCTIVE = frozenset("ąćęłńśźżğışñãõßœ")
_KNOWN = _DISTINCTIVE | frozenset("çêèàìòùâûîôëïäöüáéíóú\u0307абвгдеёжзийклмнопрстуфхцчшщъыьэюя")
_OTHER_LETTER = re.compile(r"[\u00c0-\u024f\u0400-\u04ff\u1e00-\u1eff]")
# Arabic, Thai, Kana, Han and Hangul.
_OTHER_SCRIPT = re.compile(
    "[\u0600-\u06ff\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"
)
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
# A place or a person in an English request may have a foreign letter.
_MIN_SHARE = 0.15
_MIN_COVERAGE = 0.9
_MIN_CYRILLIC_COVERAGE = 0.4


def is_known_language(text: str, coverage: float) -> bool:
    """Whether a text seems to be in one of the languages of the bundled encoder.

    `coverage` says how well its vocabulary reads the text, from 0 to 1.
    """
    # Ids and names in Latin letters say nothing about a text in another script.
    if not _is_in_other_script(text) and is_foreign(text):
        return False
    words = _WORD.findall(text)
    if text.isascii() or not words:
        return True
    foreign = [word for word in words if _has_foreign_letter(word)]
    # One such word is enough, unless it is a name, if the others look foreign too.
    if any(word[0].islower() for word in foreign) and is_unfamiliar(text):
        return False
    if len(foreign) >= _MIN_SHARE * len(words) and len(foreign) > (coverage == 1):
        return _has_only_foreign_names(words)
    if _CYRILLIC.search(text):
        return coverage >= _MIN_CYRILLIC_COVERAGE
    return coverage >= _MIN_COVERAGE or not _DISTINCTIVE.isdisjoint("".join(words).casefold())


def _is_in_other_script(text: str) -> bool:
    """Whether a text is in a script of the encoder other than Latin and Cyrillic."""
    # A third of the letters is enough: one of Han says as much as two or three Latin ones.
    letters = sum(map(len, _WORD.findall(text)))
    return 3 * len(_OTHER_SCRIPT.findall(text)) >= max(1, letters)


def _has_foreign_letter(word: str) -> bool:
    return any(c not in _KNOWN for c in _OTHER_LETTER.findall(word.casefold()))


def _has_only_foreign_names(words: Sequence[str]) -> bool:
    """Whether all words with foreign letters are names in a text of a known language."""
    # Not in Cyrillic: without its own letters, Ukrainian looks like Russian.
    if any(map(_CYRILLIC.search, words)):
        return False
    # The first word of a text has a capital letter anyway.
    names = {word for word in words[1:] if word[0].isupper() and _has_foreign_letter(word)}
    others = [word for word in words if word not in names]
    return not any(map(_has_foreign_letter, others)) and is_familiar(" ".join(others))
