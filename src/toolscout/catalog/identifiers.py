"""What a word is, in any script, and the words inside an identifier."""

from __future__ import annotations

import re

# Vowels and tones of the scripts of India and its neighbours, Hebrew, Arabic, Thaana, Thai, Lao,
# Tibetan, Burmese, Khmer. Without them every vowel sign would split a word.
MARKS = (
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u07a6-\u07b0\u0900-\u0963\u0971-\u0df3\u0e31\u0e34-\u0e3a"
    "\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u0f71-\u0f84\u0f8d-\u0fbc\u102b-\u103e\u1056-\u1059"
    "\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u17b4-\u17d3"
    "\u17dd"
)
"""Combining marks that belong to the letter before them but are not in `\\w`."""

WORD = re.compile(rf"[^\W_](?:[^\W_]|[{MARKS}])*")
"""A word of letters and digits, in any script."""

# The boundaries in `getHTTPStatus`; `URLs` and `PRs` are single words.
CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])(?![A-Z]s(?![a-z]))")


def split_identifiers(text: str) -> str:
    """Split identifiers of any case style: `getHTTPStatus_v2` becomes `get HTTP Status v2`."""
    return " ".join(WORD.findall(CAMEL_BOUNDARY.sub(" ", text)))
