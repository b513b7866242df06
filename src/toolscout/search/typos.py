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
from .analyzer import (
    has_camel_case,
    replace_words,
    terms,
    terms_by_word,
    tokenize,
    word_forms,
    word_positions,
)
from .index import Index
from .lexicon import Term
from .preprocessing import drop_quotations
from .ranking import Mask
from .spelling_index import MAX_WORD_CHARS, MIN_WORD_CHARS, SpellingIndex

_MAX_CORRECTIONS = 16
_CACHE_SIZE = 4_096
_NOT_CACHED = ("", "")


class CorrectedQuery(NamedTuple):
    """The terms of a request's clauses with slips mended, and each slip with the word it is.

    `terms` are those of all `needs`, and `words` those that tools in sight have. The request
    `is_foreign` if most of its words are strange: those are not slips, but another language.
    """

    clause_terms: Sequence[list[str]]
    terms: Sequence[str]
    known_terms: Sequence[Term]
    corrections: Mapping[str, str]
    is_foreign: bool

    def apply_to(self, text: str) -> str:
        """A text of the request as it was meant."""
        return replace_words(text, self.corrections)


def correct_typos(
    index: Index, spellings: SpellingIndex | None, clauses: Sequence[str], allowed: Mask
) -> CorrectedQuery:
    """The terms of a query's clauses with slips mended, and which word was read as which.

    Only words that a tool in the caller's sight has are offered, so a repair tells nothing of the
    others. What is quoted is a value, and left as it is; so is what is a word elsewhere. Without
    spellings nothing is mended.
    """
    said = list(map(tokenize, clauses))
    by_word = list(map(terms_by_word, said))
    needs = [list(chain.from_iterable(its)) for its in by_word]
    every = list(chain.from_iterable(needs))
    different = dict.fromkeys(every)
    found = index.look_up_terms(different, allowed)
    known = [term for term in found if term is not None]
    if spellings is None or len(known) == len(different):
        return CorrectedQuery(needs, every, known, {}, is_foreign=False)
    unknown = [text for text, term in zip(different, found, strict=True) if term is None]
    strange = {term for term in unknown if term.isalpha()}  # what has digits is a value
    told = zip(clauses, said, by_word, needs, strict=True)
    typed = _words_of_terms(told, strange) if strange else {}
    mended: dict[str, str] = {}
    slips: dict[str, str] = {}
    read = index.lexicon.visible_terms(allowed).corrections if typed else {}
    for term, word in islice(typed.items(), _MAX_CORRECTIONS):
        meant = read.get(word, _NOT_CACHED)
        if meant is _NOT_CACHED:  # each is worked out once for a caller's view
            if len(read) >= _CACHE_SIZE:
                read.clear()  # other threads may be reading
            meant = read[word] = _find_correction(index, spellings, word, term, allowed)
        if meant and not spellings.is_word(word):
            mended[term], slips[word] = meant
    if mended:
        needs = [[mended.get(term, term) for term in need] for need in needs]
        every = list(chain.from_iterable(needs))
        known = index.find_terms(dict.fromkeys(every), allowed)
    return CorrectedQuery(needs, every, known, slips, is_foreign=2 * len(unknown) > len(different))


def unknown_terms(index: Index, texts: Collection[str], allowed: Mask) -> list[str]:
    """The terms that no tool in a caller's sight has."""
    found = index.look_up_terms(texts, allowed)
    return [text for text, term in zip(texts, found, strict=True) if term is None]


def _words_of_terms(
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
        plain = drop_quotations(clause)
        if plain is not clause:
            words = tokenize(plain)
            by_word = terms_by_word(words)
        for word, its in zip(words, by_word, strict=True):
            if not its or strange.isdisjoint(its):
                continue
            if word.isalpha() and (word.islower() or word.istitle()):
                read = [(word.casefold(), its)]
            else:
                read = [(form, terms(form)) for form in word_forms((word,))]
            for form, meant in read:
                if _is_correctable(form):
                    found |= {term: form for term in meant if term in strange}
    return found


def _find_correction(
    index: Index, spellings: SpellingIndex, word: str, term: str, allowed: Mask
) -> tuple[str, str] | None:
    """The term and the word that a slip is read as.

    What was typed is compared with words as tools write them, and only then its term with theirs,
    if it is another than the word: it may be a form that no tool writes.
    """
    found = spellings.near_words(index.shared.vocabulary, word)
    near = [one for one in found if one[2] != term]  # which is not seen itself
    for other, known in _order_candidates(index, word, near, allowed):
        if _occurs_in_tools(index, known, other, allowed):
            return known.text, other
    if term == word:
        return None
    stems = [(distance, stem, stem) for distance, stem in spellings.near_terms(term)]
    for _, known in _order_candidates(index, term, stems, allowed):
        return known.text, _closest_form(index, spellings, word, known, allowed)
    return None


def _order_candidates(
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
        count = known.document_frequency
        if allowed is not index.alive:
            count = int(np.count_nonzero(allowed.take(known.posting_list.slots)))
        if count:
            is_mixed, is_even = sorted(other) == letters, len(other) == len(word)
            found.append(((distance, not is_mixed, not is_even, -count, other), known))
    found.sort(key=lambda pair: pair[0])
    yield from ((rank[-1], known) for rank, known in found)


def _closest_form(
    index: Index, spellings: SpellingIndex, word: str, known: Term, allowed: Mask
) -> str:
    """How tools in the caller's sight write a term, as near as may be to a word."""
    found = sorted(spellings.forms.get(known.text, ()), key=lambda f: (OSA.distance(word, f), f))
    seen = (form for form in found if _occurs_in_tools(index, known, form, allowed))
    return next(seen, known.text)


def _occurs_in_tools(index: Index, known: Term, word: str, allowed: Mask) -> bool:
    """Whether a tool in the caller's sight writes a word just so."""
    if allowed is index.alive and not index.shared.vocabulary.has_lost:
        return True  # whatever was met is still there
    slots: list[int] = known.posting_list.slots.compress(
        allowed.take(known.posting_list.slots)
    ).tolist()
    return any(_occurs_in_texts(index.tool(slot), word) for slot in slots) or any(
        _occurs_in_parameters(index.tool(slot).parameters, word) for slot in slots
    )


def _occurs_in_texts(tool: Tool, word: str) -> bool:
    """Whether a word stands in what is said of a tool, but for its parameters: they take longer."""
    if _contains_word(tool.description, word):
        return True
    named = (tool.name, tool.title, tool.server, tool.category)
    return _contains_word(" ".join((*named, *tool.tags, *tool.phrases)), word)


def _occurs_in_parameters(schema: Schema, word: str) -> bool:
    if schema.text.isascii() and word not in schema.text.lower():  # which is quicker to see
        return False
    return _contains_word(" ".join(chain.from_iterable(schema.descriptions())), word)


def _contains_word(text: str, word: str) -> bool:
    plain = text.lower()
    if not text.isascii():
        return word in tokenize(plain) or word in word_forms(tokenize(text))
    if word not in plain:
        return False
    if any(True for _ in word_positions(plain, word)):
        return True
    return has_camel_case(text) and word in word_forms(tokenize(text))


def _is_correctable(text: str) -> bool:
    return MIN_WORD_CHARS <= len(text) <= MAX_WORD_CHARS and text.isalpha() and text[0] < "\u2e7f"
