"""The words of a catalog as written, and which of them a typo may stand for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import NamedTuple

from rapidfuzz.distance import OSA

from . import kernel
from .analyzer import terms, word_forms
from .lexicon import Vocabulary

MIN_WORD_CHARS = 4
MAX_WORD_CHARS = 40
# Shorter words have so many neighbours at one edit that only transposed letters count as a typo.
_MIN_EDIT_CHARS = 5
# In shorter words two edits change too much: most words would have a neighbour.
_MIN_TWO_EDIT_CHARS = 8
# Short stems of different words are too alike.
_MIN_STEM_CHARS = 6
_CACHE_SIZE = 4_096

NearWords = list[tuple[int, str, str]]
"""Edit distance, word and term of each similar word."""


@dataclass(slots=True)
class WordsByLetter:
    """Distinct words by their first letter; each letter is prepared when it is first needed."""

    by_letter: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    by_length: dict[str, WordsByLength] = field(default_factory=dict[str, "WordsByLength"])
    near_cache: dict[str, list[tuple[int, str]]] = field(
        default_factory=dict[str, "list[tuple[int, str]]"]
    )
    source_count: int = 0
    """How many entries of the vocabulary have been added so far."""

    def add(self, words: Iterable[str]) -> None:
        """Add words that are neither very short nor very long."""
        self.near_cache.clear()
        for word in words:
            # One letter less than a typo may have: it may have one too many.
            if MIN_WORD_CHARS - 1 <= len(word) <= MAX_WORD_CHARS and word.isalpha():
                self.by_letter.setdefault(word[0], {})[word] = None

    def find_near(self, word: str) -> list[tuple[int, str]]:
        """Other words within one edit, or two for a long word, with the distance.

        The first letter must be right: people rarely mistype it, and it divides the work by about
        the size of the alphabet.
        """
        near = self.near_cache.get(word)
        if near is None:
            if len(self.near_cache) >= _CACHE_SIZE:
                self.near_cache.clear()
            near = self.near_cache[word] = self._search_near(word)
        return near

    def _search_near(self, word: str) -> list[tuple[int, str]]:
        known = self.by_letter.get(word[0], {})
        if len(word) < _MIN_EDIT_CHARS:
            return [(1, other) for other in _transpositions(word) if other in known]
        words = self.by_length.get(word[0])
        if words is None or len(words.words) < len(known):
            words = self.by_length[word[0]] = WordsByLength.of(known)
        edits = 2 if len(word) >= _MIN_TWO_EDIT_CHARS else 1
        similar = [other for other in words.similar_words(word, edits) if other != word]
        # Optimal string alignment: edit distance in which swapping two neighbours is one edit.
        compared = [(OSA.distance(word, other, score_cutoff=edits), other) for other in similar]
        return [pair for pair in compared if pair[0] <= edits]


class WordsByLength(NamedTuple):
    """Words sorted by length, with signatures; words of length n begin at `starts[n]`."""

    words: Sequence[str]
    starts: Sequence[int]
    signatures: kernel.LetterSignatures

    @classmethod
    def of(cls, words: Iterable[str]) -> WordsByLength:
        """Sort words by length and compute their signatures."""
        by_length = sorted(words, key=len)
        # Up to two lengths beyond the longest word, and one more as the end of the last.
        starts = [bisect_left(by_length, length, key=len) for length in range(MAX_WORD_CHARS + 4)]
        return cls(by_length, starts, kernel.LetterSignatures(by_length))

    def similar_words(self, word: str, edits: int) -> list[str]:
        """The words that may be within some edits, by two lower bounds of the distance."""
        # An edit changes the length by at most one, and the signature by at most two bits.
        start, end = self.starts[len(word) - edits], self.starts[len(word) + edits + 1]
        near = self.signatures.find_similar(word, start, end, 2 * edits)
        return [self.words[start + place] for place in near]


@dataclass(slots=True)
class SpellingIndex:
    """The words of a catalog as written, and its terms, each with the words that it stands for.

    Built when the first typo is met, and extended as the catalog grows. Words of removed tools
    stay: the caller checks that a tool still has a word.
    """

    is_word: Callable[[str], bool]
    """Whether something is certainly a word, even if no tool has it."""
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    words: WordsByLetter = field(default_factory=WordsByLetter)
    terms: WordsByLetter = field(default_factory=WordsByLetter)
    forms: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    lock: Lock = field(default_factory=Lock)

    def near_words(self, vocabulary: Vocabulary, word: str) -> NearWords:
        """The words near a word, with distance and term."""
        with self.lock:
            self._sync(vocabulary)
            near = self.words.find_near(word)
        return [(distance, other, term) for distance, other in near for term in terms(other)[:1]]

    def near_terms(self, term: str) -> list[tuple[int, str]]:
        """The terms near a term: finds typos in forms of a word that no tool writes."""
        if len(term) < _MIN_STEM_CHARS:
            return []
        with self.lock:
            return self.terms.find_near(term)

    def _sync(self, vocabulary: Vocabulary) -> None:
        """Add what is new in the vocabulary, or start again with another vocabulary."""
        if vocabulary is not self.vocabulary:
            self.vocabulary = vocabulary
            self.words, self.terms, self.forms = WordsByLetter(), WordsByLetter(), {}
        if self.words.source_count < (end := len(vocabulary.words)):
            new = list(word_forms(islice(vocabulary.words, self.words.source_count, end)))
            self.words.add(new)
            self.words.source_count = end
            for word in dict.fromkeys(new):
                for term in terms(word)[:1]:
                    self.forms.setdefault(term, []).append(word)
        if self.terms.source_count < (end := len(vocabulary.terms)):
            self.terms.add(islice(vocabulary.terms, self.terms.source_count, end))
            self.terms.source_count = end


def _transpositions(word: str) -> Iterator[str]:
    """A word with two neighbouring letters swapped, the first letter left in place."""
    for place in range(1, len(word) - 1):
        if word[place] != word[place + 1]:
            yield word[:place] + word[place + 1] + word[place] + word[place + 2 :]
