"""Vectors of the catalog's words, to translate query words of other languages into them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..catalog.identifiers import MARKS, split_identifiers
from ..catalog.tool import Tool
from ..embedders.arrays import Floats
from ..embedders.languages import ENGLISH, FUNCTION_WORDS, is_probably_in, language_of
from ..embedders.threads import one_thread
from .analyzer import needs_bigrams, terms
from .variants import canonical_word

# Encoding words takes time, so a large catalog is sampled: its most common words are enough.
_MAX_WORDS = 3_000
_MAX_TOOLS = 2_000
_MAX_DESCRIPTION_CHARS = 2_000
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

    `languages` are those of the texts that have each. `hubness` is how close each word is to its
    nearest neighbours among the most common words. `size` is the size of the vocabulary at that
    time.
    """

    terms: Sequence[str]
    words: Sequence[str]
    languages: Sequence[str]
    vectors: Floats
    hubness: Floats
    size: int

    @classmethod
    def of(
        cls, words: Mapping[str, str], vectors: Floats, *, languages: Sequence[str], size: int
    ) -> Glossary:
        """Build a glossary from words by term, and the unit vectors of the words."""
        others = vectors[:_HUBNESS_SAMPLE]
        first = max(0, len(others) - _NEIGHBOURS)
        with one_thread():
            similarity = vectors @ others.T
        np.fill_diagonal(similarity, -1)  # a word is not its own neighbour
        similarity.partition(first, axis=1)
        hubness = similarity[:, first:].mean(axis=1)
        return cls(tuple(words), tuple(words.values()), tuple(languages), vectors, hubness, size)

    def is_outgrown(self, size: int) -> bool:
        """Whether the vocabulary has grown so much that a new glossary is worth its cost."""
        return size > _REBUILD_GROWTH * self.size

    def without(self, languages: Collection[str]) -> Glossary:
        """The glossary of the terms that are in other languages."""
        kept = [i for i, name in enumerate(self.languages) if name not in languages]
        if len(kept) == len(self.terms):
            return self
        terms, words, names = (
            [column[place] for place in kept] for column in (self.terms, self.words, self.languages)
        )
        return Glossary(terms, words, names, self.vectors[kept], self.hubness[kept], self.size)

    def translations(self, vectors: Floats, *, min_similarity: float) -> list[Translations]:
        """The nearest terms of each word, if any are near enough."""
        with one_thread():
            similarity = vectors @ self.vectors.T
        # Hubness correction: some words, mostly odd tokens, are close to everything and would be
        # chosen for everything. Taking off the mean similarity to their neighbours is the target
        # side of CSLS (Conneau et al., 2018, "Word translation without parallel data"). The query
        # side would be the same for all candidates and changes no order.
        corrected = similarity - self.hubness
        found: list[Translations] = []
        for row, scores in zip(similarity, corrected, strict=True):
            best: list[int] = np.argsort(-scores)[:_MAX_TRANSLATIONS].tolist()
            lowest = scores[best[0]] - _TRANSLATION_MARGIN
            chosen = [p for p in best if row[p] >= min_similarity and scores[p] >= lowest]
            found.append({self.terms[place]: 1 / len(chosen) for place in chosen})
        return found


def common_words(tools: Collection[Tool]) -> dict[str, str]:
    """The most common terms of a catalog, each with the word that it usually stands for.

    The word is encoded, not the term: encoders know words, not stems.
    """
    found: dict[str, Counter[str]] = {}
    for forms in _count_forms(tools).values():
        for term, its in forms.items():
            found.setdefault(term, Counter()).update(its)
    ordered = sorted(found, key=lambda term: (-found[term].total(), term))[:_MAX_WORDS]
    return {term: min(found[term], key=lambda w: (-found[term][w], w)) for term in ordered}


def term_languages(tools: Collection[Tool], terms: Collection[str]) -> list[str]:
    """The language of the texts that have a term most often."""
    forms = _count_forms(tools)
    by_language = {name: {t: c.total() for t, c in its.items()} for name, its in forms.items()}
    return [
        max(by_language, key=lambda name: by_language[name].get(t, 0), default=ENGLISH)
        for t in terms
    ]


def _count_forms(tools: Collection[Tool]) -> dict[str, dict[str, Counter[str]]]:
    """How often each word stands for a term, by the language of the texts."""
    counts: dict[str, Counter[str]] = {}
    for text, language in _texts_with_language(tools):
        counts.setdefault(language, Counter()).update(WORD.findall(text))
    found: dict[str, dict[str, Counter[str]]] = {}
    for language, its in counts.items():
        forms = found[language] = dict[str, Counter[str]]()
        for written, count in its.items():
            for term, form in _terms_with_form(written):
                # Some are words of English, whose own stop words are no terms.
                if language == ENGLISH or form not in FUNCTION_WORDS:
                    forms.setdefault(term, Counter())[form] += count
    return found


def _texts_with_language(tools: Collection[Tool]) -> Iterator[tuple[str, str]]:
    """The texts of a sample of tools, name and description apart, each with its language."""
    step = -(-len(tools) // _MAX_TOOLS)
    for tool in list(tools)[:: step or 1]:
        text = " ".join((tool.description[:_MAX_DESCRIPTION_CHARS], *tool.phrases))
        language = language_of(text)
        yield text, language
        name = f"{tool.name} {tool.title}"
        # Many tools have English names and descriptions in another language.
        is_same = is_probably_in(split_identifiers(name), language)
        yield name, language if is_same else ENGLISH


def _terms_with_form(written: str) -> Iterator[tuple[str, str]]:
    """The terms of a word as written, each with the word to encode for it."""
    words = split_identifiers(written).casefold().split()
    for word in " ".join(map(canonical_word, words)).split():
        for term in terms(word):
            # U+0250 is the end of the Latin letters; in other scripts two characters are a word.
            if term.isalpha() and len(term) >= (_MIN_WORD_CHARS if term < "\u0250" else 2):
                yield term, term if needs_bigrams(term) else word
