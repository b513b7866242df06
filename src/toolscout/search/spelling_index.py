"""The words of a catalog as they are written, and which of them a slip may be."""

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
from .postings import Vocabulary

MIN_WORD_CHARS = 4
MAX_WORD_CHARS = 40
_MIN_EDIT_CHARS = (
    5  # shorter words have so many neighbours that only letters out of order are a slip
)
_MIN_TWO_EDIT_CHARS = 8
_SHORTEST_STEM = 6
_CACHE_SIZE = 4_096

NearWords = list[tuple[int, str, str]]
"""Words, how many slips away each is, and its term."""


@dataclass(slots=True)
class WordsByLetter:
    """Different words by their first letter, each letter's laid out when it is first asked for."""

    by_letter: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    by_length: dict[str, WordsByLength] = field(default_factory=dict[str, "WordsByLength"])
    near_cache: dict[str, list[tuple[int, str]]] = field(
        default_factory=dict[str, "list[tuple[int, str]]"]
    )
    seen: int = 0
    """How many of the texts that they come from have been taken in."""

    def add(self, words: Iterable[str]) -> None:
        """Take in what is a word and neither very short nor very long."""
        self.near_cache.clear()
        for word in words:
            if MIN_WORD_CHARS - 1 <= len(word) <= MAX_WORD_CHARS and word.isalpha():
                self.by_letter.setdefault(word[0], {})[word] = None

    def find_near(self, word: str) -> list[tuple[int, str]]:
        """Other words one slip away, two for a long word, and how many; the first letter is right.

        One caller's slip is another's, so it is worked out once.
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
        laid = self.by_length.get(word[0])
        if laid is None or len(laid.words) < len(known):
            laid = self.by_length[word[0]] = WordsByLength.of(known)
        slips = 2 if len(word) >= _MIN_TWO_EDIT_CHARS else 1
        like = [other for other in laid.similar_words(word, slips) if other != word]
        compared = [(OSA.distance(word, other, score_cutoff=slips), other) for other in like]
        return [pair for pair in compared if pair[0] <= slips]


class WordsByLength(NamedTuple):
    """Words by length, each with its letters, so that most can be told apart all at once.

    Words of a length begin at its place in `starts`.
    """

    words: Sequence[str]
    starts: Sequence[int]
    letters: kernel.LetterSignatures

    @classmethod
    def of(cls, words: Iterable[str]) -> WordsByLength:
        """Lay words out."""
        listed = sorted(words, key=len)
        starts = [bisect_left(listed, length, key=len) for length in range(MAX_WORD_CHARS + 4)]
        return cls(listed, starts, kernel.LetterSignatures(listed))

    def similar_words(self, word: str, slips: int) -> list[str]:
        """What may be so many slips away: a slip changes the length by one and two letters."""
        start, end = self.starts[len(word) - slips], self.starts[len(word) + slips + 1]
        near = self.letters.find_similar(word, start, end, 2 * slips)
        return [self.words[start + place] for place in near]


@dataclass(slots=True)
class SpellingIndex:
    """The words of a catalog as they are written, and its terms, each with the words it stands for.

    They are collected when a slip is first met, and then as the catalog grows. What has left the
    catalog stays: whoever reads a slip as a word sees to it that a tool still has it.
    """

    is_word: Callable[[str], bool]
    """Tells of a word that it is surely one, even if no tool has it."""
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    words: WordsByLetter = field(default_factory=WordsByLetter)
    terms: WordsByLetter = field(default_factory=WordsByLetter)
    forms: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    lock: Lock = field(default_factory=Lock)

    def near_words(self, vocabulary: Vocabulary, word: str) -> NearWords:
        """Words near a word: how many slips away, and the term of each."""
        with self.lock:
            self._sync(vocabulary)
            near = self.words.find_near(word)
        return [(distance, other, term) for distance, other in near for term in terms(other)[:1]]

    def near_terms(self, term: str) -> list[tuple[int, str]]:
        """Terms near a term, for the sake of other forms of a word; short ones say too little."""
        if len(term) < _SHORTEST_STEM:
            return []
        with self.lock:
            return self.terms.find_near(term)

    def _sync(self, vocabulary: Vocabulary) -> None:
        """Take in what came since last time, or start anew with another vocabulary."""
        if vocabulary is not self.vocabulary:
            self.vocabulary, self.words, self.terms, self.forms = (
                vocabulary,
                WordsByLetter(),
                WordsByLetter(),
                {},
            )
        if self.words.seen < (end := len(vocabulary.words)):
            fresh = list(word_forms(islice(vocabulary.words, self.words.seen, end)))
            self.words.add(fresh)
            self.words.seen = end
            for word in dict.fromkeys(fresh):
                for term in terms(word)[:1]:
                    self.forms.setdefault(term, []).append(word)
        if self.terms.seen < (end := len(vocabulary.terms)):
            self.terms.add(islice(vocabulary.terms, self.terms.seen, end))
            self.terms.seen = end


def _transpositions(word: str) -> Iterator[str]:
    """A word with two letters in the other order, but for the first."""
    for place in range(1, len(word) - 1):
        if word[place] != word[place + 1]:
            yield word[:place] + word[place + 1] + word[place] + word[place + 2 :]
