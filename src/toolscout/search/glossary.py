"""Vectors of the catalog's words, to translate query words of other languages into them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ..catalog.identifiers import MARKS, split_identifiers
from ..catalog.tool import Tool
from ..embedders.arrays import Floats, Mask
from ..embedders.languages import ENGLISH, FUNCTION_WORDS
from ..embedders.threads import one_thread
from ..embedders.tool_texts import language_texts
from .analyzer import needs_bigrams, terms
from .variants import canonical_word

# Encoding words takes time, so a large catalog is sampled: its most common words are enough.
_MAX_WORDS = 3_000
_MAX_TOOLS = 2_000
_MIN_WORD_CHARS = 3
# Hubness: the mean similarity to the nearest 25 of the 1,000 most common words.
_HUBNESS_SAMPLE = 1_000
_NEIGHBOURS = 25
# A second translation counts only if it is nearly as good as the first.
_MAX_TRANSLATIONS = 2
_TRANSLATION_MARGIN = 0.08
# The glossary is built again when the vocabulary has grown by five percent.
_REBUILD_GROWTH = 1.05

WORD = re.compile(rf"[^\W\d_](?:[^\W\d_]|[{MARKS}])*")
"""A word of letters alone, in any script."""

Translations = Mapping[str, float]
"""The catalog's terms that a word may mean, each with its share."""


@dataclass(frozen=True, slots=True)
class Glossary:
    """The most common terms of a catalog, the word that each stands for, and its vector.

    `languages` says of each language which terms are in it. `hubness` is how close each word is to
    its nearest neighbours among the most common words. `size` is that of the vocabulary then.
    """

    terms: Sequence[str]
    words: Sequence[str]
    languages: Mapping[str, Mask]
    vectors: Floats
    hubness: Floats
    size: int

    @classmethod
    def of(
        cls, words: Mapping[str, str], vectors: Floats, *, languages: Mapping[str, str], size: int
    ) -> Glossary:
        """Build a glossary from words by term, and the unit vectors of the words."""
        others = vectors[:_HUBNESS_SAMPLE]
        first = max(0, len(others) - _NEIGHBOURS)
        with one_thread():
            similarity = vectors @ others.T
        np.fill_diagonal(similarity, -1)  # a word is not its own neighbour
        similarity.partition(first, axis=1)
        hubness = similarity[:, first:].mean(axis=1)
        its = np.array([languages.get(term, "") for term in words])
        masks = {str(name): its == name for name in np.unique(its)}
        return cls(tuple(words), tuple(words.values()), masks, vectors, hubness, size)

    def is_outgrown(self, size: int) -> bool:
        """Whether the vocabulary has grown so much that a new glossary is worth its cost."""
        return size > _REBUILD_GROWTH * self.size

    def translations(
        self, vectors: Floats, *, min_similarity: float, among: Mask
    ) -> list[Translations]:
        """The nearest terms of each word among some terms, if any are near enough."""
        with one_thread():
            similarity = vectors @ self.vectors.T
        # Hubness correction: some words, mostly odd tokens, are close to everything and would be
        # chosen for everything. Taking off the mean similarity to their neighbours is the target
        # side of CSLS (Conneau et al., 2018, "Word translation without parallel data"). The query
        # side would be the same for all candidates and changes no order.
        corrected = np.where(among, similarity - self.hubness, -np.inf)
        found: list[Translations] = []
        for row, scores in zip(similarity, corrected, strict=True):
            best: list[int] = np.argsort(-scores)[:_MAX_TRANSLATIONS].tolist()
            lowest = scores[best[0]] - _TRANSLATION_MARGIN
            chosen = [p for p in best if row[p] >= min_similarity and scores[p] >= lowest]
            found.append({self.terms[place]: 1 / len(chosen) for place in chosen})
        return found


def usual_forms(tools: Collection[Tool]) -> dict[str, tuple[str, str]]:
    """The most common terms of a catalog, each with the word and the language it is usually in.

    The word is encoded, not the term: encoders know words, not stems.
    """
    counts: dict[str, Counter[str]] = {}
    step = -(-len(tools) // _MAX_TOOLS)
    for text, language in chain.from_iterable(map(language_texts, list(tools)[:: step or 1])):
        counts.setdefault(language, Counter()).update(WORD.findall(text))
    forms: dict[str, Counter[tuple[str, str]]] = {}
    for language, written in counts.items():
        for term, word, count in _count_terms(written):
            # Some are words of English, whose own stop words are not terms.
            if language == ENGLISH or word not in FUNCTION_WORDS:
                forms.setdefault(term, Counter())[word, language] += count
    ordered = sorted(forms, key=lambda term: (-forms[term].total(), term))[:_MAX_WORDS]
    return {term: min(forms[term], key=lambda f: (-forms[term][f], f)) for term in ordered}


def _count_terms(counts: Mapping[str, int]) -> Iterator[tuple[str, str, int]]:
    """The terms of words as written, each with the word to encode for it and its count."""
    for written, count in counts.items():
        words = split_identifiers(written).casefold().split()
        for word in " ".join(map(canonical_word, words)).split():
            for term in terms(word):
                # Up to U+0250 letters are Latin; in other scripts two characters are a word.
                if term.isalpha() and len(term) >= (_MIN_WORD_CHARS if term < "\u0250" else 2):
                    yield term, term if needs_bigrams(term) else word, count
