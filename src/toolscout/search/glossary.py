"""The catalog's words by what they mean, so that words of another language can be read as them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..catalog.tool import Tool
from .analyzer import MARKS, needs_bigrams, split_identifiers, terms
from .embedders.embedder import Floats
from .variants import canonical_word
from .vectors import one_thread

_MOST_WORDS = 3_000
_MOST_TOOLS = 2_000
_TEXT_CAP = 2_000
_MAX_QUERY_CHARS = 1_000
_SHORTEST = 3
_CROWDING_SAMPLE = 1_000
_NEIGHBOURS = 25
_CLOSE = 0.08
_MAX_TRANSLATIONS = 2
_REBUILD_GROWTH = 1.05

_WORD = re.compile(rf"[^\W\d_](?:[^\W\d_]|[{MARKS}])*")
# What stands for a word where no blanks do: runs of Han, of Katakana, of Hangul.
_RUNS = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]+|[\u30a1-\u30fa\u30fc]{2,}|[\uac00-\ud7af]{2,}")

Translations = Mapping[str, float]
"""Terms of the catalog that a word may mean, and the share of each."""


@dataclass(frozen=True, slots=True)
class Glossary:
    """Terms of a catalog, the word each stands for, and its vector.

    `crowding` is how near each has the nearest of the commonest: a word that is near to everything
    means little. `size` is how large the vocabulary was.
    """

    terms: Sequence[str]
    words: Sequence[str]
    vectors: Floats
    crowding: Floats
    size: int

    @classmethod
    def of(cls, words: Mapping[str, str], vectors: Floats, *, size: int) -> Glossary:
        """A glossary of terms, each with its word, and the vectors of the words, of length one."""
        others = vectors[:_CROWDING_SAMPLE]
        first = max(0, len(others) - _NEIGHBOURS)
        with one_thread():
            likeness = vectors @ others.T
        np.fill_diagonal(likeness, -1)  # nothing crowds itself
        likeness.partition(first, axis=1)
        crowding = likeness[:, first:].mean(axis=1)
        return cls(tuple(words), tuple(words.values()), vectors, crowding, size)

    def is_outgrown(self, size: int) -> bool:
        """Whether the vocabulary has grown by so much that a new glossary pays."""
        return size > _REBUILD_GROWTH * self.size

    def translations(self, vectors: Floats, *, least: float) -> list[Translations]:
        """What each of some words may mean: the nearest terms, if they are near enough at all."""
        with one_thread():
            likeness = vectors @ self.vectors.T
        standing = likeness - self.crowding
        found: list[Translations] = []
        for like, stands in zip(likeness, standing, strict=True):
            best: list[int] = np.argsort(-stands)[:_MAX_TRANSLATIONS].tolist()
            lowest = stands[best[0]] - _CLOSE
            kept = [p for p in best if like[p] >= least and stands[p] >= lowest]
            found.append({self.terms[place]: 1 / len(kept) for place in kept})
        return found


def common_words(tools: Collection[Tool]) -> dict[str, str]:
    """The commonest terms of a catalog, each with the word that it mostly stands for."""
    counts: Counter[str] = Counter()
    step = -(-len(tools) // _MOST_TOOLS)
    for tool in list(tools)[:: step or 1]:
        texts = (tool.name, tool.title, tool.description[:_TEXT_CAP], *tool.phrases)
        counts.update(_WORD.findall(" ".join(texts)))
    forms: dict[str, Counter[str]] = {}
    for written, count in counts.items():
        words = split_identifiers(written).casefold().split()
        for word in " ".join(map(canonical_word, words)).split():
            for term in terms(word):
                if term.isalpha() and len(term) >= (_SHORTEST if term < "\u0250" else 2):
                    form = term if needs_bigrams(term) else word
                    forms.setdefault(term, Counter())[form] += count
    ordered = sorted(forms, key=lambda term: (-forms[term].total(), term))[:_MOST_WORDS]
    return {term: min(forms[term], key=lambda w: (-forms[term][w], w)) for term in ordered}


def split_words(text: str) -> Iterator[str]:
    """The words that a text begins with, accents and all; without blanks what may be words."""
    start = text[
        :_MAX_QUERY_CHARS
    ]  # bringing odd marks into order takes a time that grows with its square
    for word in _WORD.findall(unicodedata.normalize("NFKC", start).casefold()):
        yield from _split_runs(word) if needs_bigrams(word) else (word,)


def _split_runs(text: str) -> Iterable[str]:
    for run in _RUNS.findall(text):
        is_han = run[0] > "\u33ff" and run[0] < "\uac00"
        if not is_han or len(run) <= _SHORTEST:
            yield run
        if is_han and len(run) >= _SHORTEST:
            yield from (run[i : i + 2] for i in range(len(run) - 1))
