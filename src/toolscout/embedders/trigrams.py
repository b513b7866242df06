"""Whether a text is in another language than those of the bundled encoder, by its trigrams."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from math import log
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .arrays import Floats

# The first lines of the file: the languages that the encoder knows in Latin and Cyrillic letters.
_KNOWN_LANGUAGES = 10
_WORD = re.compile(r"[^\W\d_]+")
# Trigrams follow Zipf's law, so the rank of one says how frequent it is. Those that are not among
# the 400 of a language count as somewhat rarer than the last of them.
_UNSEEN = 2e-4
# A text needs evidence: a few trigrams say nothing, and in doubt a language is known. In nats;
# docs/decisions/ranking.md has the shares of wrong and of missing notes.
_MIN_TRIGRAMS = 8
_MIN_EVIDENCE = 8.0
_MIN_FAMILIAR_EVIDENCE = 2.0
# Against English, by the other words of a text. A typo makes trigrams rarer: a
# word whose trigrams are not clearly rarer than those of its correction is none.
_MIN_OTHER_EVIDENCE = 8.0
_TYPO_LOSS = 0.3
_ENGLISH = 0


class _Profiles(NamedTuple):
    """A row of log-probabilities for each trigram, with a column for each language."""

    rows: Mapping[str, int]
    log_probabilities: Floats
    languages: Sequence[str]


@cache
def _profiles() -> _Profiles:
    # The 400 most frequent trigrams of each language, the most frequent first, from the profiles of
    # langdetect (Apache 2.0), which were counted in Wikipedia. `_` is the edge of a word.
    text = Path(__file__).with_name("trigrams.txt").read_text(encoding="utf-8")
    languages = dict(line.split() for line in text.splitlines())
    cut = [[g[i : i + 3] for i in range(0, len(g), 3)] for g in languages.values()]
    rows = {gram: row for row, gram in enumerate(dict.fromkeys(chain(*cut)))}
    chances = np.full((len(rows), len(cut)), _UNSEEN, np.float32)
    for column, grams in enumerate(cut):
        chances[[rows[g] for g in grams], column] = 0.25 / (np.arange(len(grams)) + 15)
    return _Profiles(rows, np.log(chances), tuple(languages))


def _cut(text: str) -> list[str]:
    """The trigrams of a text."""
    words = [f"_{word}_" for word in _WORD.findall(text.lower())]
    return [word[i : i + 3] for word in words for i in range(len(word) - 2)]


def known_language_scores(text: str) -> dict[str, float]:
    """The log-likelihood of a text in each known language; empty if it has no known trigram."""
    rows, log_probabilities, names = _profiles()
    found = [rows[gram] for gram in _cut(text) if gram in rows]
    if not found:
        return {}
    scores: list[float] = log_probabilities[found, :_KNOWN_LANGUAGES].sum(axis=0).tolist()
    return dict(zip(names, scores, strict=False))


def is_foreign(text: str) -> bool:
    """Whether a text in Latin or Cyrillic letters is clearly in none of the known languages."""
    return _foreign_evidence(text) > _MIN_EVIDENCE


def is_familiar(text: str) -> bool:
    """Whether a text in Latin or Cyrillic letters is rather in one of the known languages."""
    return _foreign_evidence(text) < -_MIN_FAMILIAR_EVIDENCE


def is_unfamiliar(text: str) -> bool:
    """Whether a text in Latin or Cyrillic letters is rather in none of the known languages."""
    return _foreign_evidence(text) > _MIN_FAMILIAR_EVIDENCE


def _foreign_evidence(text: str) -> float:
    """How much better the best other language fits than the best known one; 0 if too short."""
    rows, log_probabilities, _ = _profiles()
    found = [rows[gram] for gram in _cut(text) if gram in rows]
    if len(found) < _MIN_TRIGRAMS:
        return 0.0
    scores = log_probabilities[found].sum(axis=0)
    return float(scores[_KNOWN_LANGUAGES:].max() - scores[:_KNOWN_LANGUAGES].max())


def fits_language(word: str, text: str, *, rather_than: str) -> bool:
    """Whether a text is in another language than English, which has a word rather than another."""
    rows, log_probabilities, _ = _profiles()
    # By its other words: a typo is made of strange trigrams.
    others = re.sub(rf"\b{re.escape(word)}\b", " ", text, flags=re.IGNORECASE)
    found = [rows[gram] for gram in _cut(others) if gram in rows]
    scores = log_probabilities[found].sum(axis=0)
    language = int(scores.argmax())
    if scores[language] - scores[_ENGLISH] < _MIN_OTHER_EVIDENCE:
        return False
    typed, other = (_mean_score(each, language) for each in (word, rather_than))
    return typed >= other - _TYPO_LOSS


def _mean_score(word: str, language: int) -> float:
    """How well a word fits a language: the mean of the logarithms of its trigrams."""
    rows, log_probabilities, _ = _profiles()
    grams = _cut(word)
    found = [rows[gram] for gram in grams if gram in rows]
    unseen = (len(grams) - len(found)) * log(_UNSEEN)
    return (float(log_probabilities[found, language].sum()) + unseen) / max(1, len(grams))
