"""Analysis: text in any script to the terms that the index holds and queries are made of."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any

from .variants import canonical_word

_STOP_WORDS = """
a about ain all also am an and any are aren as at be been being but by can could couldn did didn do
does doesn doing don for from had hadn has hasn have haven having he her hers herself him himself
his how i if in into is isn it its itself just let like may me might must mustn my myself needn of
on onto or our ours ourselves please shall she should shouldn so some such than that the their
theirs them themselves then there these they this those to too upon us very want wants was wasn we
were weren what when where which while who whom whose why will with would wouldn you your yours
yourself yourselves
"""
_STOP = frozenset(_STOP_WORDS.split())
# Words that hardly any other language has: a text with one of them is English.
_ENGLISH_WORDS = """
and can could does every from how its many much my need our please should some something that the
their them these they this those what when where which who why with would you your
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
# Signs that belong to the letter before them, and which `\w` leaves out: vowels and tones of the
# scripts of India and its neighbours, Hebrew, Arabic, Thaana, Thai, Lao, Tibetan, Burmese, Khmer.
MARKS = (
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u07a6-\u07b0\u0900-\u0963\u0971-\u0df3\u0e31\u0e34-\u0e3a"
    "\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u0f71-\u0f84\u0f8d-\u0fbc\u102b-\u103e\u1056-\u1059"
    "\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u17b4-\u17d3"
    "\u17dd"
)
_WORD = re.compile(rf"[^\W_](?:[^\W_]|[{MARKS}])*")
_ASCII_TABLE = bytes(code if chr(code).isalnum() else 32 for code in range(128)) + bytes(128)
# What an apostrophe parts from its word: `I'm`, `don't`, `the user's`.
_CONTRACTED = re.compile(r"['’](?<=[a-z].)(?:d|ll|m|re|s|t|ve)\b", re.IGNORECASE)
# Where words are joined; `URLs` and `PRs` are single words.
_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])(?![A-Z]s(?![a-z]))")
_LETTERS = re.compile(r"[^\W\d_]{3,}")
# Scripts written without spaces, and Hangul, whose particles hide the stem: pairs of characters.
_BIGRAM_SCRIPTS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3040-\u30ff\u3130-\u318f"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_SCRIPTS = (
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
_MAX_CACHED_CHARS = 64


def fold(text: str) -> str:
    """One spelling for what looks the same: compatibility forms and accents folded.

    What makes another letter stays: the breve of `й`, and vowels where a script writes them as
    signs. Hebrew and Arabic vowels, which are mostly left out, go.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def split_identifiers(text: str) -> str:
    """Identifiers in every case style as words: `getHTTPStatus_v2` is `get HTTP Status v2`."""
    return " ".join(_WORD.findall(_CAMEL_BOUNDARY.sub(" ", text)))


def words(text: str) -> list[str]:
    """The words of a text as written, but for case."""
    return [w.casefold() for w in tokenize(text)]


def word_forms(words: Iterable[str]) -> Iterator[str]:
    """Words as one would say them: in small letters, an identifier and behind it its words."""
    for word in words:
        yield word.casefold()
        if not word.islower() and len(parts := _CAMEL_BOUNDARY.sub(" ", word).split()) > 1:
            yield from map(str.casefold, parts)


def has_camel_case(text: str) -> bool:
    """Whether a text has words that are joined, as in `sendMail`."""
    return _CAMEL_BOUNDARY.search(text) is not None


def replace_words(text: str, others: Mapping[str, str]) -> str:
    """A text with words that are known by their folded form replaced by others."""
    if not text.isascii():
        return _WORD.sub(lambda m: others.get(fold(m[0]).casefold(), m[0]), text)
    plain = text.lower()
    found = sorted((place, word) for word in others for place in word_positions(plain, word))
    pieces: list[str] = []
    end = 0
    for place, word in found:
        pieces += text[end:place], others[word]
        end = place + len(word)
    return "".join((*pieces, text[end:]))


def word_positions(plain: str, word: str) -> Iterator[int]:
    """Where a word stands in a text of plain letters, and not as a part of another."""
    place = plain.find(word)
    while place >= 0:
        end = place + len(word)
        if not (plain[place - 1 : place].isalnum() or plain[end : end + 1].isalnum()):
            yield place
        place = plain.find(word, end)


def terms(text: str) -> list[str]:
    """The index terms of a text, in order, stop words left out."""
    return terms_of_words(tokenize(text))


def terms_of_words(words: Sequence[str]) -> list[str]:
    """The same of words as they are written."""
    return list(chain.from_iterable(map(_term_cache.__getitem__, words)))


def terms_by_word(words: Iterable[str]) -> list[tuple[str, ...]]:
    """The same word by word."""
    return list(map(_term_cache.__getitem__, words))


def tokenize(text: str) -> list[str]:
    """What is written without a break; plain English needs no pattern for that."""
    if "'" in text or "’" in text:
        text = _CONTRACTED.sub("", text)
    if not text.isascii():
        return _WORD.findall(fold(text))
    return text.encode().translate(_ASCII_TABLE).decode().split()


def needs_bigrams(text: str) -> bool:
    """Whether a text has characters that are indexed in pairs, for want of words."""
    return _BIGRAM_SCRIPTS.search(text) is not None


def is_english(text: str) -> bool:
    """Whether a text has one of the small words by which English is told from other languages."""
    return " the " in text or not _ENGLISH.isdisjoint(text.lower().split())


def has_digit(term: str) -> bool:
    """Whether a term has a digit: an argument's value rather than a capability."""
    return not term.isalpha() and any(map(str.isdigit, term))


def latin_share(text: str) -> float:
    """The share of Latin letters among all letters; 1 for a text without letters."""
    letters = [c for c in text if c.isalpha()]
    return sum(c < "\u0250" for c in letters) / len(letters) if letters else 1.0


class _TermCache(dict[str, tuple[str, ...]]):
    """The terms of words, worked out when a word is first met."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        found = _simple_terms(word) or tuple(_analyze_word(word))
        if (
            len(word) <= _MAX_CACHED_CHARS
        ):  # what is longer is no word, and would be kept for nobody
            if len(self) >= _CACHE_SIZE:
                self.clear()
            self[word] = found
        return found


_term_cache = _TermCache()


def _simple_terms(word: str) -> tuple[str, ...]:
    """The term of a word that has but one, as most have; nothing if it has to be looked at."""
    if not (word.isascii() and word.isalpha() and (word.islower() or word.istitle())):
        return ()
    lowered = word.lower()
    if lowered in _STOP or " " in (full := canonical_word(lowered)):
        return ()
    stem = _stem(full)
    return (word if stem == word else stem,)  # one text for both is kept once, and found sooner


def _analyze_word(word: str) -> Iterable[str]:
    lowered = word.casefold()
    if _BIGRAM_SCRIPTS.search(word):
        yield from _bigrams(word)
        return
    parts = _CAMEL_BOUNDARY.sub(" ", word).split() if not word.islower() else [word]
    if len(parts) > 1:
        # `GitHub` is asked for as `github`; `listPullRequests` never as one word.
        if len(parts) == 2:
            yield _stem(lowered)
        for part in parts:
            yield from _plain_terms(part.casefold())
        return
    yield from _plain_terms(lowered)


def _plain_terms(word: str) -> Iterable[str]:
    if word in _STOP:
        return
    yield from map(_stem, canonical_word(word).split())
    if has_digit(word) and not word.isdigit():
        yield from (_stem(part) for part in _LETTERS.findall(word) if part not in _STOP)


def _bigrams(word: str) -> Iterable[str]:
    position = 0
    for run in _BIGRAM_SCRIPTS.finditer(word):
        if rest := word[position : run.start()]:
            yield from _plain_terms(rest.casefold())
        text = run.group()
        yield from (text[i : i + 2] for i in range(max(1, len(text) - 1)))
        position = run.end()
    if rest := word[position:]:
        yield from _plain_terms(rest.casefold())


def _stem(word: str) -> str:
    first = word[0]
    if first < "\u0370":
        return _stemmer("english")(word)
    for start, end, language in _SCRIPTS:
        if start <= first <= end:
            return _stemmer(language)(word)
    return word


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    snowball: Any = import_module("Stemmer")  # it brings no types
    return snowball.Stemmer(language, 0).stemWord  # its cache takes longer than stemming does
