"""Typo repair: a word that no tool has is read as the word of the catalog that it nearly is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import OSA

from ..catalog.schema import Schema
from ..catalog.tool import Tool
from .index import Index
from .lexicon import Term
from .ranking import Mask
from .spellings import LONGEST, SHORTEST, Spellings
from .text import forms, is_humped, places, terms, terms_by_word, with_words, written
from .values import without_quotations

_MOST = 16
_REMEMBERED = 4_096
_UNREAD = ("", "")


class Repaired(NamedTuple):
    """The terms of a request's clauses with slips mended, and each slip with the word it is.

    `terms` are those of all `needs`, and `words` those that tools in sight have. The request
    `is_foreign` if most of its words are strange: those are not slips, but another language.
    """

    needs: Sequence[list[str]]
    terms: Sequence[str]
    words: Sequence[Term]
    slips: Mapping[str, str]
    is_foreign: bool

    def mended(self, text: str) -> str:
        """A text of the request as it was meant."""
        return with_words(text, self.slips)


def repair(
    index: Index, spellings: Spellings | None, clauses: Sequence[str], allowed: Mask
) -> Repaired:
    """The terms of a query's clauses with slips mended, and which word was read as which.

    Only words that a tool in the caller's sight has are offered, so a repair tells nothing of the
    others. What is quoted is a value, and left as it is; so is what is a word elsewhere. Without
    spellings nothing is mended.
    """
    said = list(map(written, clauses))
    by_word = list(map(terms_by_word, said))
    needs = [list(chain.from_iterable(its)) for its in by_word]
    every = list(chain.from_iterable(needs))
    different = dict.fromkeys(every)
    found = index.terms(different, allowed)
    known = [term for term in found if term is not None]
    if spellings is None or len(known) == len(different):
        return Repaired(needs, every, known, {}, is_foreign=False)
    unknown = [text for text, term in zip(different, found, strict=True) if term is None]
    strange = {term for term in unknown if term.isalpha()}  # what has digits is a value
    told = zip(clauses, said, by_word, needs, strict=True)
    typed = _typed(told, strange) if strange else {}
    mended: dict[str, str] = {}
    slips: dict[str, str] = {}
    read = index.lexicon.sight(allowed).slips if typed else {}
    for term, word in islice(typed.items(), _MOST):
        meant = read.get(word, _UNREAD)
        if meant is _UNREAD:  # each is worked out once for a caller's view
            if len(read) >= _REMEMBERED:
                read.clear()  # other threads may be reading
            meant = read[word] = _meant(index, spellings, word, term, allowed)
        if meant and not spellings.is_word(word):
            mended[term], slips[word] = meant
    if mended:
        needs = [[mended.get(term, term) for term in need] for need in needs]
        every = list(chain.from_iterable(needs))
        known = index.known(dict.fromkeys(every), allowed)
    return Repaired(needs, every, known, slips, is_foreign=2 * len(unknown) > len(different))


def unseen(index: Index, texts: Collection[str], allowed: Mask) -> list[str]:
    """The terms that no tool in a caller's sight has."""
    found = index.terms(texts, allowed)
    return [text for text, term in zip(texts, found, strict=True) if term is None]


def _typed(
    clauses: Iterable[tuple[str, Sequence[str], Sequence[tuple[str, ...]], Sequence[str]]],
    strange: AbstractSet[str],
) -> dict[str, str]:
    """The words that strange terms were typed as, but for what is quoted.

    Of each clause come its text, its words, the terms of each, and all of those.
    """
    found: dict[str, str] = {}
    for clause, words, by_word, need in clauses:
        if strange.isdisjoint(need):
            continue
        plain = without_quotations(clause)
        if plain is not clause:
            words = written(plain)
            by_word = terms_by_word(words)
        for word, its in zip(words, by_word, strict=True):
            if not its or strange.isdisjoint(its):
                continue
            if word.isalpha() and (word.islower() or word.istitle()):
                read = [(word.casefold(), its)]
            else:
                read = [(form, terms(form)) for form in forms((word,))]
            for form, meant in read:
                if _is_word(form):
                    found |= {term: form for term in meant if term in strange}
    return found


def _meant(
    index: Index, spellings: Spellings, word: str, term: str, allowed: Mask
) -> tuple[str, str] | None:
    """The term and the word that a slip is read as.

    What was typed is compared with words as tools write them, and only then its term with theirs,
    if it is another than the word: it may be a form that no tool writes.
    """
    found = spellings.near(index.shared.vocabulary, word)
    near = [one for one in found if one[2] != term]  # which is not seen itself
    for other, known in _ordered(index, word, near, allowed):
        if _is_written(index, known, other, allowed):
            return known.text, other
    if term == word:
        return None
    stems = [(distance, stem, stem) for distance, stem in spellings.near_term(term)]
    for _, known in _ordered(index, term, stems, allowed):
        return known.text, _form(index, spellings, word, known, allowed)
    return None


def _ordered(
    index: Index, word: str, offered: Iterable[tuple[int, str, str]], allowed: Mask
) -> Iterator[tuple[str, Term]]:
    """What is in the caller's sight, the likeliest first, with what is known of its term.

    Of equally many slips letters that changed places are likelier than another letter, and that is
    likelier than one too few or too many; then the word that more tools have.
    """
    found: list[tuple[tuple[int, bool, bool, int, str], Term]] = []
    letters = sorted(word)
    for distance, other, stem in offered:
        known = index.lexicon.get(stem)
        if known is None:
            continue
        count = known.tools
        if allowed is not index.alive:
            count = int(np.count_nonzero(allowed.take(known.word.slots)))
        if count:
            is_mixed, is_even = sorted(other) == letters, len(other) == len(word)
            found.append(((distance, not is_mixed, not is_even, -count, other), known))
    found.sort(key=lambda pair: pair[0])
    yield from ((rank[-1], known) for rank, known in found)


def _form(index: Index, spellings: Spellings, word: str, known: Term, allowed: Mask) -> str:
    """How tools in the caller's sight write a term, as near as may be to a word."""
    found = sorted(spellings.forms.get(known.text, ()), key=lambda f: (OSA.distance(word, f), f))
    seen = (form for form in found if _is_written(index, known, form, allowed))
    return next(seen, known.text)


def _is_written(index: Index, known: Term, word: str, allowed: Mask) -> bool:
    """Whether a tool in the caller's sight writes a word just so."""
    if allowed is index.alive and not index.shared.vocabulary.has_lost:
        return True  # whatever was met is still there
    slots: list[int] = known.word.slots.compress(allowed.take(known.word.slots)).tolist()
    return any(_says(index.tool(slot), word) for slot in slots) or any(
        _describes(index.tool(slot).parameters, word) for slot in slots
    )


def _says(tool: Tool, word: str) -> bool:
    """Whether a word stands in what is said of a tool, but for its parameters: they take longer."""
    if _has(tool.description, word):
        return True
    named = (tool.name, tool.title, tool.server, tool.category)
    return _has(" ".join((*named, *tool.tags, *tool.phrases)), word)


def _describes(schema: Schema, word: str) -> bool:
    if schema.text.isascii() and word not in schema.text.lower():  # which is quicker to see
        return False
    return _has(" ".join(chain.from_iterable(schema.described())), word)


def _has(text: str, word: str) -> bool:
    plain = text.lower()
    if not text.isascii():
        return word in written(plain) or word in forms(written(text))
    if word not in plain:
        return False
    if any(True for _ in places(plain, word)):
        return True
    return is_humped(text) and word in forms(written(text))


def _is_word(text: str) -> bool:
    return SHORTEST <= len(text) <= LONGEST and text.isalpha() and text[0] < "\u2e7f"
