"""Guess which languages a text may be in, so that only their words are looked for."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SCRIPTS = {
    "ru uk": re.compile("[\u0400-\u052f]"),
    "ar fa": re.compile("[\u0600-\u06ff]"),
    "he": re.compile("[\u0590-\u05ff]"),
    "zh ja": re.compile("[\u3400-\u9fff]"),
    "ja": re.compile("[\u3040-\u30ff]"),
    "ko": re.compile("[\uac00-\ud7af]"),
    "hi": re.compile("[\u0900-\u097f]"),
    "th": re.compile("[\u0e00-\u0e7f]"),
    "el": re.compile("[\u0370-\u03ff]"),
}
# Common words of other languages that are English words too.
_ENGLISH = frozenset({"a", "all", "alle", "as", "at", "con", "den", "die", "do", "for", "in", "is",
                      "it", "me", "no", "on", "per", "so", "te", "to", "van"})  # fmt: skip
_WORD = re.compile(r"[a-z']{1,14}")
_MIN_COMMON_WORDS = 2


def guess_languages(folded: str, common: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """The languages that folded text may contain; none for plain English.

    `common` are the common words of those that Latin letters do not tell apart.
    """
    found: list[str] = []
    if not folded.isascii():
        for names, script in _SCRIPTS.items():
            if script.search(folded):
                found += names.split()
    words = {*_WORD.findall(folded)} - _ENGLISH
    found += [
        language for language, known in common.items() if len(words & known) >= _MIN_COMMON_WORDS
    ]
    return tuple(dict.fromkeys(found))
