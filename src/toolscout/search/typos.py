"""Typo repair: a word that no tool has is read as the word of the catalog that it nearly is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain, islice
from threading import Lock

from rapidfuzz.distance import OSA

from ..catalog.tool import Tool
from .index import Index
from .postings import Vocabulary
from .ranking import Mask
from .text import forms, terms, written

_SHORTEST = 4
_LONGEST = 40
_LONG = 8
_ENOUGH = 3
_MOST = 16
_TOOLS = 20
_CHUNK = 100


@dataclass(slots=True)
class Words:
    """Different words by first letter and length."""

    buckets: dict[tuple[str, int], dict[str, None]] = field(
        default_factory=dict[tuple[str, int], dict[str, None]]
    )
    seen: int = 0
    """How many of the texts that they come from have been taken in."""

    def add(self, words: Iterable[str]) -> None:
        """Take in what is a word and neither very short nor very long."""
        for word in words:
            if _SHORTEST - 1 <= len(word) <= _LONGEST and word.isalpha():
                self.buckets.setdefault((word[0], len(word)), {})[word] = None

    def near(self, word: str) -> list[tuple[int, str]]:
        """Words one slip away, two for a long word, and how many; the first letter is trusted."""
        slips = 2 if len(word) >= _LONG else 1
        found: list[tuple[int, str]] = []
        for length in range(len(word) - slips, len(word) + slips + 1):
            for other in self.buckets.get((word[0], length), ()):
                distance = OSA.distance(word, other, score_cutoff=slips)
                if distance <= slips:
                    found.append((distance, other))
        return found


@dataclass(slots=True)
class Spellings:
    """The words of a catalog as they are written, and its terms.

    They are collected when a slip is first met, and then as the catalog grows. What has left the
    catalog stays: whoever reads a slip as a word sees to it that a tool still has it.
    """

    tools: list[Tool] = field(default_factory=list[Tool])
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    words: Words = field(default_factory=Words)
    terms: Words = field(default_factory=Words)
    lock: Lock = field(default_factory=Lock)

    def near(self, index: Index, word: str, term: str) -> tuple[list[tuple[int, str]], ...]:
        """Words near a word, and terms near its term."""
        with self.lock:
            self._follow(index)
            return self.words.near(word), self.terms.near(term) if _is_word(term) else []

    def _follow(self, index: Index) -> None:
        """Take in what came since last time, or start anew with another index."""
        tools, vocabulary = index.shared.tools, index.shared.vocabulary
        if tools is not self.tools:
            self.tools, self.words = tools, Words()
        if vocabulary is not self.vocabulary:
            self.vocabulary, self.terms = vocabulary, Words()
        if self.words.seen < index.size:
            self.words.add(forms(_different(tools[self.words.seen : index.size])))
            self.words.seen = index.size
        self.terms.add(islice(vocabulary.terms, self.terms.seen, end := len(vocabulary)))
        self.terms.seen = end


def repair(
    index: Index, spellings: Spellings, clauses: Sequence[str], allowed: Mask
) -> tuple[Sequence[list[str]], dict[str, str]]:
    """The terms of a query's clauses with slips mended, and which word was read as which.

    Only words that a tool in the caller's sight has are offered, so a repair tells nothing of the
    others. A request that has enough words the catalog knows needs no repair: what is unknown in it
    is a name or a value more often than a slip.
    """
    needs = [terms(clause) for clause in clauses]
    different = dict.fromkeys(chain.from_iterable(needs))
    unknown = unseen(index, different, allowed)
    if not unknown or len(different) - len(unknown) >= _ENOUGH:
        return needs, {}
    typed = {term: word for c in clauses for word in forms(written(c)) for term in terms(word)}
    mended: dict[str, str] = {}
    told: dict[str, str] = {}
    for term in unknown[:_MOST]:
        word = typed.get(term, term)
        if found := _meant(index, spellings, word, term, allowed) if _is_word(word) else None:
            mended[term], told[word] = found
    return [[mended.get(t, t) for t in need] for need in needs], told


def unseen(index: Index, texts: Collection[str], allowed: Mask) -> list[str]:
    """The terms that no tool in a caller's sight has."""
    lexicon = index.lexicon
    known = lexicon.terms(texts) if allowed is index.alive else lexicon.seen(texts, allowed)
    if len(known) == len(texts):
        return []
    names = {term.text for term in known}
    return [text for text in texts if text not in names]


def _meant(
    index: Index, spellings: Spellings, word: str, term: str, allowed: Mask
) -> tuple[str, str] | None:
    """The term and the word that a slip is read as.

    What was typed is compared with words as tools write them; only then its term with theirs, for
    the sake of other forms of a word and of what stands in parameters alone.
    """
    words, stems = spellings.near(index, word, term)
    offered = [(d, w, t) for d, w in words for t in terms(w)[:1]]
    for other, stem, slots in _ordered(index, word, offered, allowed):
        if any(_writes(index.tool(slot), other) for slot in slots):
            return stem, other
    for _, stem, slots in _ordered(index, term, [(d, t, t) for d, t in stems], allowed):
        return stem, _form(map(index.tool, slots), word, stem)
    return None


def _ordered(
    index: Index, word: str, offered: Iterable[tuple[int, str, str]], allowed: Mask
) -> Iterator[tuple[str, str, list[int]]]:
    """What is in the caller's sight, the likeliest first, with the slots that have its term.

    Of equally many slips letters that changed places are likelier than another letter, and that is
    likelier than one too few or too many; then the word that more tools have.
    """
    found: list[tuple[tuple[int, bool, bool, int, str], str, list[int]]] = []
    letters = sorted(word)
    for distance, other, stem in offered:
        known = index.lexicon.get(stem)
        if known is None:
            continue
        slots: list[int] = known.slots.compress(allowed.take(known.slots)).tolist()
        if slots:
            is_mixed, is_even = sorted(other) == letters, len(other) == len(word)
            rank = (distance, not is_mixed, not is_even, -len(slots), other)
            found.append((rank, stem, slots))
    return ((rank[-1], stem, slots) for rank, stem, slots in sorted(found))


def _form(tools: Iterable[Tool], word: str, term: str) -> str:
    """How tools write a term, as near as may be to a word; the first few by name tell."""
    found: set[str] = set()
    for tool in nsmallest(_TOOLS, tools, key=lambda t: t.name):
        described = chain.from_iterable(tool.parameters.described())
        words = written(" ".join((_text(tool), *described)))
        found.update(f for f in forms(words) if term in terms(f))
    return min(found, default=term, key=lambda f: (not f.isalpha(), OSA.distance(word, f), f))


def _writes(tool: Tool, word: str) -> bool:
    text = _text(tool)
    if text.isascii() and word not in text.casefold():  # which is quicker to see
        return False
    return word in forms(written(text))


def _different(tools: Sequence[Tool]) -> set[str]:
    """The words of many tools, each once; some tools at a time, for the sake of memory."""
    found: set[str] = set()
    for first in range(0, len(tools), _CHUNK):
        found.update(written(" ".join(map(_text, tools[first : first + _CHUNK]))))
    return {word for word in found if not word.isdigit()}


def _text(tool: Tool) -> str:
    """What is written of a tool, but for its parameters, which take long to read."""
    named = (tool.name, tool.title, tool.server, tool.category, *tool.tags)
    return " ".join((*named, tool.description, *tool.phrases))


def _is_word(text: str) -> bool:
    return _SHORTEST <= len(text) <= _LONGEST and text.isalpha() and text[0] < "\u2e7f"
