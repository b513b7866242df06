"""Text analysis: text in any script to the terms of the index and of queries."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any

from ..catalog.identifiers import CAMEL_BOUNDARY, WORD
from ..embedders.languages import STOP_WORDS
from .variants import canonical_word

_ASCII_TABLE = bytes(code if chr(code).isalnum() else 32 for code in range(128)) + bytes(128)
# Contractions: the m of `I'm` and the s of `the user's` are not words and would count as unknown.
_CONTRACTED = re.compile(r"['’](?<=[a-z].)(?:d|ll|m|re|s|t|ve)\b", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W\d_]{3,}")
# Indexed as character bigrams, the usual way without a dictionary: scripts written without spaces,
# and Hangul, where particles are attached to the stem.
_BIGRAM_SCRIPTS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3040-\u30ff\u3130-\u318f"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
# Snowball stemmers by script, which tells languages apart well enough here. Latin script is stemmed
# as English, the language of nearly all tool descriptions.
_STEMMER_RANGES = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u052f", "russian"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)
_ACCENTS = re.compile(
    "(?<![\u0400-\u04ff])\u0306|[\u0300-\u0305\u0307-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u064b-\u0652\u0670]"
)
_CACHE_SIZE = 200_000
# Longer runs (tokens, hashes, Base64) do not repeat, so caching them would waste memory.
_MAX_CACHED_CHARS = 64


def fold(text: str) -> str:
    """Remove accents and fold compatibility forms (NFKD).

    Marks that make another letter stay: the breve of `й`, and vowel signs of Indic scripts. Hebrew
    and Arabic vowel points, which people usually do not write, are removed.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def words(text: str) -> list[str]:
    """The words of a text in lower case."""
    return [w.casefold() for w in tokenize(text)]


def word_forms(words: Iterable[str]) -> Iterator[str]:
    """Words in lower case; an identifier is followed by its parts."""
    for word in words:
        yield word.casefold()
        if not word.islower() and len(parts := CAMEL_BOUNDARY.sub(" ", word).split()) > 1:
            yield from map(str.casefold, parts)


def replace_words(text: str, replacements: Mapping[str, str]) -> str:
    """Replace words of a text, looked up in lower case and without accents."""
    return WORD.sub(lambda m: replacements.get(fold(m[0]).casefold(), m[0]), text)


def terms(text: str) -> list[str]:
    """The index terms of a text, in order, without stop words."""
    return terms_of_words(tokenize(text))


def terms_of_words(words: Sequence[str]) -> list[str]:
    """The index terms of words as written."""
    return list(chain.from_iterable(map(_term_cache.__getitem__, words)))


def tokenize(text: str) -> list[str]:
    """Split a text into words."""
    if "'" in text or "’" in text:
        text = _CONTRACTED.sub("", text)
    if not text.isascii():
        return WORD.findall(fold(text))
    # A byte table and str.split are several times faster than a regular expression.
    return text.encode().translate(_ASCII_TABLE).decode().split()


def needs_bigrams(text: str) -> bool:
    """Whether a text has characters that are indexed as bigrams."""
    return _BIGRAM_SCRIPTS.search(text) is not None


def latin_share(text: str) -> float:
    """The share of Latin letters among all letters; 1 for a text without letters."""
    letters = [c for c in text if c.isalpha()]
    return sum(c < "\u0250" for c in letters) / len(letters) if letters else 1.0


class _TermCache(dict[str, tuple[str, ...]]):
    """The terms of words, computed when a word is first looked up."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        found = _simple_terms(word) or tuple(_analyze_word(word))
        if len(word) <= _MAX_CACHED_CHARS:
            if len(self) >= _CACHE_SIZE:
                self.clear()
            self[word] = found
        return found


_term_cache = _TermCache()


def _simple_terms(word: str) -> tuple[str, ...]:
    """The term of a plain English word; empty if the word needs the full analysis."""
    if not (word.isascii() and word.isalpha() and (word.islower() or word.istitle())):
        return ()
    lowered = word.lower()
    if lowered in STOP_WORDS or " " in (full := canonical_word(lowered)):
        return ()
    stem = _stem(full)
    # The same string object as the word where possible: less memory, and dictionaries compare
    # identical objects faster.
    return (word if stem == word else stem,)


def _analyze_word(word: str) -> Iterable[str]:
    if _BIGRAM_SCRIPTS.search(word):
        yield from _bigrams(word)
        return
    parts = CAMEL_BOUNDARY.sub(" ", word).split() if not word.islower() else [word]
    # `GitHub` is asked for as `github`; `listPullRequests` never as one word.
    if len(parts) == 2:
        yield _stem(word.casefold())
    for part in parts:
        yield from _plain_terms(part.casefold())


def _plain_terms(word: str) -> Iterable[str]:
    if word in STOP_WORDS:
        return
    yield from map(_stem, canonical_word(word).split())
    # `python3` is also found as `python`.
    if not (word.isalpha() or word.isdigit()) and any(map(str.isdigit, word)):
        yield from (_stem(part) for part in _LETTERS.findall(word) if part not in STOP_WORDS)


def _bigrams(word: str) -> Iterable[str]:
    position = 0
    for run in _BIGRAM_SCRIPTS.finditer(word):
        if rest := word[position : run.start()]:
            yield from _plain_terms(rest.casefold())
        text = run.group()
        # A run of one character is a term by itself.
        yield from (text[i : i + 2] for i in range(max(1, len(text) - 1)))
        position = run.end()
    if rest := word[position:]:
        yield from _plain_terms(rest.casefold())


def _stem(word: str) -> str:
    first = word[0]
    if first < "\u0370":
        return _stemmer("english")(word)
    for start, end, language in _STEMMER_RANGES:
        if start <= first <= end:
            return _stemmer(language)(word)
    return word


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    snowball: Any = import_module("Stemmer")  # it has no type hints
    # 0: without a cache of its own. `_TermCache` asks for each word once, so it would only cost.
    return snowball.Stemmer(language, 0).stemWord
