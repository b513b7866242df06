"""The words of a catalog as written, and which of them a typo may stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from threading import Lock

from rapidfuzz.distance import OSA
from rapidfuzz.process import extract

from .analyzer import word_forms
from .lexicon import Vocabulary

MIN_WORD_CHARS = 4
MAX_WORD_CHARS = 40
# Shorter words have so many neighbours at one edit that only transposed letters count as a typo.
_MIN_EDIT_CHARS = 5
# In shorter words two edits change too much: most words would have a neighbour.
_MIN_TWO_EDIT_CHARS = 8
_CACHE_SIZE = 4_096

# Letters that are taken for each other: neighbours on a keyboard, and those that sound alike.
_ROWS = "qwertyuiop asdfghjkl zxcvbnm qwertz azert aeiouya ioae eu ck cs sz fv dt bp gj mn lr kq"
_PAIRS = {a + b for row in _ROWS.split() for a, b in pairwise(row)}
_ALIKE = _PAIRS | {pair[::-1] for pair in _PAIRS}

Near = list[tuple[int, str]]
"""Edit distance and word of each similar word."""


@dataclass(slots=True)
class WordList:
    """Distinct words by their first letter; `read` entries of the vocabulary are in it."""

    by_letter: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    cache: dict[str, Near] = field(default_factory=dict[str, Near])
    read: int = 0

    def add(self, words: Iterable[str], *, read: int) -> None:
        """Add words that are neither very short nor very long."""
        self.read = read
        self.cache.clear()
        for word in words:
            # One letter less than a typo may have: it may have one too many.
            if MIN_WORD_CHARS - 1 <= len(word) <= MAX_WORD_CHARS and word.isalpha():
                self.by_letter.setdefault(word[0], {})[word] = None

    def find_near(self, word: str) -> Near:
        """Other words within one edit, or two for a long word.

        The first letter must be right: people rarely mistype it, and it divides the work by about
        the size of the alphabet.
        """
        if word not in self.cache:
            if len(self.cache) >= _CACHE_SIZE:
                self.cache.clear()
            self.cache[word] = self._search(word)
        return self.cache[word]

    def _search(self, word: str) -> Near:
        known = self.by_letter.get(word[0], {})
        if len(word) < _MIN_EDIT_CHARS:
            return [(1, other) for other in _transpositions(word) if other in known]
        edits = 2 if len(word) >= _MIN_TWO_EDIT_CHARS else 1
        # Optimal string alignment: edit distance in which swapping two neighbours is one edit.
        found = extract(word, list(known), scorer=OSA.distance, score_cutoff=edits, limit=None)
        return [(int(distance), other) for other, distance, _ in found if other != word]


@dataclass(slots=True)
class Spelling:
    """The words of a catalog as written.

    Built when the first typo is met, and extended as the catalog grows. Words of removed tools
    stay: the caller checks that a tool still has a word.
    """

    is_word: Callable[[str], bool]
    """Whether something is certainly a word, even if no tool has it."""
    is_wordlike: Callable[[str], bool]
    """Whether something is made like a word, so that only a likely typo in it is corrected."""
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    words: WordList = field(default_factory=WordList)
    lock: Lock = field(default_factory=Lock)

    def near_words(self, vocabulary: Vocabulary, word: str) -> Near:
        """The words near a word."""
        with self.lock:
            if vocabulary is not self.vocabulary:
                self.vocabulary, self.words = vocabulary, WordList()
            if self.words.read < (end := len(vocabulary.words)):
                new = islice(vocabulary.words, self.words.read, end)
                self.words.add(word_forms(new), read=end)
            return self.words.find_near(word)


def is_likely_typo(word: str, other: str, distance: int) -> bool:
    """Whether a word differs by one typo: a letter missing, added, swapped, or hit beside."""
    if distance > 1 or len(word) != len(other):
        return distance == 1
    changed = {a + b for a, b in zip(word, other, strict=True) if a != b}
    return len(changed) > 1 or not changed.isdisjoint(_ALIKE) or not word.isascii()


def _transpositions(word: str) -> Iterator[str]:
    """A word with two neighbouring letters swapped, the first letter left in place."""
    for place in range(1, len(word) - 1):
        if word[place] != word[place + 1]:
            yield word[:place] + word[place + 1] + word[place] + word[place + 2 :]
