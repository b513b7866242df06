"""Cross-lingual ranking: query words of other languages, translated into the catalog's words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from ...embedders.arrays import Mask
from ...embedders.embedder import (
    CrossLingualEmbedder,
    normalize_rows,
    vocabulary_coverage,
)
from ...embedders.languages import is_probably_in
from ...embedders.query_vectors import QueryVectors
from ..analyzer import needs_bigrams, terms
from ..glossary import WORD, Glossary, Translations
from ..lexicon import Term
from ..ranking import RankingRequest
from .bm25f import LexicalRanking

# Half the weight of words that the request really contains: a translation may be wrong.
WEIGHT = 0.4
# If the catalog has this share of a request's words, it speaks the request's language.
FLUENT_SHARE = 0.5
# Bounds the words to encode: encoding is the slowest part of a search.
_MAX_WORDS = 64
_MAX_WORD_CHARS = 40
# Unicode normalisation of unusual combining marks takes quadratic time.
_MAX_QUERY_CHARS = 1_000
# Stand-ins for words in scripts without spaces: runs of Han, Katakana or Hangul.
_RUNS = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]+|[\u30a1-\u30fa\u30fc]{2,}|[\uac00-\ud7af]{2,}")
# A run of three Han characters is looked up whole and as pairs, a longer one only as pairs.
_MAX_RUN_CHARS = 3


class CrossLingual:
    """Translates unknown words with a multilingual embedder, and ranks by BM25F.

    A word is never translated into a word of the request's own language. Trust falls with the share
    of the request's words that visible tools have, and is nothing from one half on: its unknown
    words are then names and values. It also falls with the share of unknown words without a
    translation, and with the embedder's vocabulary_coverage of the request.
    """

    # In `search_arm` events and in metrics, so it stays even if the class is renamed.
    event_name = "foreign"

    def __init__(self, embedder: CrossLingualEmbedder, *, weight: float = WEIGHT) -> None:
        self.embedder = embedder
        self.weight = weight
        self._queries = QueryVectors(embedder)

    def rank(self, request: RankingRequest) -> LexicalRanking | None:
        """Score the tools that contain translations of the query's unknown words."""
        glossary = request.index.glossaries.get(self.embedder.id)
        if glossary is None or _is_plainly_known(request):
            return None
        unknown, known_share = _unknown_words(request)
        if known_share >= FLUENT_SHARE or not unknown:
            return None
        foreign = _in_other_languages(glossary, request.query.words)
        readable = vocabulary_coverage(self.embedder, request.query.words)
        if readable <= 0 or not foreign.any():
            return None
        found = self._find_translations(request, glossary, unknown, foreign)
        translated = _translation_terms(request, found)
        if not translated:
            return None
        share = sum(map(bool, found)) / len(unknown)
        trust = self.weight * (1 - known_share / FLUENT_SHARE) * share * readable
        return LexicalRanking.of(
            request, translated, coverage=share, trust=trust, arm="translation"
        )

    def _find_translations(
        self, request: RankingRequest, glossary: Glossary, words: Sequence[str], among: Mask
    ) -> list[Translations]:
        """Translate words, leaving out translations that only hidden tools contain."""
        vectors = normalize_rows(self._queries.encode(words))
        threshold = self.embedder.translation_threshold
        found = glossary.translations(vectors, min_similarity=threshold, among=among)
        visible = {t.text for t in request.find_terms({*chain(*found)})}
        return [{t: share for t, share in its.items() if t in visible} for its in found]


def _in_other_languages(glossary: Glossary, text: str) -> Mask:
    """The words of a catalog, perhaps of several languages, that are not in that of a request."""
    spoken = [its for name, its in glossary.languages.items() if is_probably_in(text, name)]
    return ~np.logical_or.reduce([np.zeros(len(glossary.terms), np.bool_), *spoken])


def _is_plainly_known(request: RankingRequest) -> bool:
    """Whether visible tools have enough of the terms; a quick test where terms are words."""
    known, count = len(request.known_terms), len({*request.terms})
    return known >= FLUENT_SHARE * count and not needs_bigrams(request.query.words)


def _unknown_words(request: RankingRequest) -> tuple[list[str], float]:
    """The words that no visible tool has, and the share of the words that one has."""
    words = dict.fromkeys(w for w in split_words(request.query.words) if len(w) <= _MAX_WORD_CHARS)
    unknown: list[str] = []
    count = 0
    for word in list(words)[:_MAX_WORDS]:
        if found := terms(word):
            count += 1
            if not request.find_terms(found):
                unknown.append(word)
    return unknown, 1 - len(unknown) / max(1, count)


def _translation_terms(request: RankingRequest, found: Iterable[Translations]) -> list[Term]:
    """The catalog's terms that words translate to, each with the largest of its shares."""
    # The largest, not the sum: several words of a request may be translated to the same term, and
    # saying something twice should not count twice.
    shares: dict[str, float] = {}
    for candidates in found:
        for term, share in candidates.items():
            shares[term] = max(share, shares.get(term, 0.0))
    return [term.scale(shares[term.text]) for term in request.find_terms(shares)]


def split_words(text: str) -> Iterator[str]:
    """The words at the beginning of a text, with accents; runs of characters without spaces."""
    # Accents stay, unlike in the index: the encoder knows the words as people write them.
    start = text[:_MAX_QUERY_CHARS]
    for word in WORD.findall(unicodedata.normalize("NFKC", start).casefold()):
        yield from _split_runs(word) if needs_bigrams(word) else (word,)


def _split_runs(text: str) -> Iterable[str]:
    # Most Chinese words have two characters: longer runs of Han are also looked up as pairs.
    for run in _RUNS.findall(text):
        is_han = run[0] > "\u33ff" and run[0] < "\uac00"
        if not is_han or len(run) <= _MAX_RUN_CHARS:
            yield run
        if is_han and len(run) >= _MAX_RUN_CHARS:
            yield from (run[i : i + 2] for i in range(len(run) - 1))
