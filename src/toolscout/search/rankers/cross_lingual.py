"""Words of another language: looked up by what they mean among the catalog's own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from threading import Lock

import numpy as np

from ..analyzer import is_english, terms
from ..embedders.embedder import CrossLingualEmbedder, encode_texts, legibility, normalize_rows
from ..glossary import Glossary, Translations, split_words
from ..lexicon import Term
from ..ranking import Floats, RankingRequest
from .bm25f import LexicalRanking

WEIGHT = 0.4
_MAX_WORDS = 64
_MAX_WORD_CHARS = 40  # what is longer is no word
_MIN_LATIN_RATIO = 2
_CACHE_SIZE = 4_096
_LATIN = "\u0250"


class CrossLingual:
    """The arm that reads strange words as the catalog's words that mean the same.

    Words of other scripts are looked up wherever the catalog does not know them, words in Latin
    letters only where there are twice as many of them as of others, and none that is plainly
    English: a few are names or values more often. It is trusted as far as the strange words were
    found, and the embedder reads the request.
    """

    def __init__(self, embedder: CrossLingualEmbedder, *, weight: float = WEIGHT) -> None:
        self.embedder = embedder
        self.weight = weight
        self._known: dict[str, Floats] = {}
        self._writing = Lock()

    def rank(self, request: RankingRequest) -> LexicalRanking | None:
        """Score the tools that have words of the same meaning."""
        glossary = request.index.glossaries.get(self.embedder.id)
        if glossary is None:
            return None
        legible = legibility(self.embedder, request.query.words)
        if legible <= 0:
            return None
        clauses = [list(split_words(clause)) for clause in request.clauses]
        words = dict.fromkeys(w for clause in clauses for w in clause if len(w) <= _MAX_WORD_CHARS)
        strange = _unknown_words(request, list(words)[:_MAX_WORDS])
        if not strange:
            return None
        meant = self._find_translations(request, glossary, strange)
        found = _translation_terms(request, meant)
        if not found:
            return None
        share = sum(bool(meant[word]) for word in strange) / len(strange)
        needs = [[t for word in clause for t in meant.get(word, ())] for clause in clauses]
        trust = self.weight * share * legible
        return LexicalRanking.of(
            request, found, coverage=share, trust=trust, needs=needs, arm="translation"
        )

    def _find_translations(
        self, request: RankingRequest, glossary: Glossary, words: Sequence[str]
    ) -> dict[str, Translations]:
        """What words mean, as far as a caller may know: nothing hidden is chosen for them."""
        vectors = np.stack([self._word_vectors(words)[word] for word in words])
        found = glossary.translations(vectors, least=self.embedder.translation_threshold)
        seen = {term.text for term in request.find_terms(set(chain.from_iterable(found)))}
        return {
            word: {term: share for term, share in meanings.items() if term in seen}
            for word, meanings in zip(words, found, strict=True)
        }

    def _word_vectors(self, words: Sequence[str]) -> Mapping[str, Floats]:
        """The vectors of words, those met before remembered."""
        with self._writing:
            known = {word: self._known[word] for word in words if word in self._known}
        if new := [word for word in words if word not in known]:
            known |= zip(
                new, normalize_rows(encode_texts(self.embedder, new, are_queries=True)), strict=True
            )
            with self._writing:
                if len(self._known) > _CACHE_SIZE:
                    self._known.clear()
                self._known |= known
        return known


def _unknown_words(request: RankingRequest, words: Sequence[str]) -> list[str]:
    """The words that the catalog does not know and that are worth looking up."""
    strange: list[str] = []
    known = 0
    for word in words:
        found = terms(word)
        if found and not request.find_terms(found):
            strange.append(word)
        else:
            known += bool(found)
    latin = sum(word < _LATIN for word in strange)
    is_foreign = latin >= _MIN_LATIN_RATIO * known and not is_english(request.query.words)
    return strange if is_foreign else [word for word in strange if word >= _LATIN]


def _translation_terms(request: RankingRequest, meant: Mapping[str, Translations]) -> list[Term]:
    """The catalog's terms, each as loud as the surest of the words that mean it."""
    shares: dict[str, float] = {}
    for meanings in meant.values():
        for term, share in meanings.items():
            shares[term] = max(share, shares.get(term, 0.0))
    return [term.scale(shares[term.text]) for term in request.find_terms(shares)]
