"""Typo correction: a word that no tool has is read as a similar word of the catalog."""

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
from .arrays import Mask
from .index import Index
from .lexicon import Term
from .preprocessing import drop_quotations
from .spelling_index import MAX_WORD_CHARS, MIN_WORD_CHARS, SpellingIndex

# Bounds the work for a long text in an unknown language, where every word looks like a typo.
_MAX_CORRECTIONS = 16
_CACHE_SIZE = 4_096
_NOT_CACHED = ("", "")  # None is a cached result: no correction


class CorrectedQuery(NamedTuple):
    """The terms of a request with typos corrected, and the corrections by typo.

    `clause_terms` are the terms of each clause, `terms` those of all clauses, `known_terms` those
    that a visible tool has. `is_foreign` says that most words are unknown: then they are probably
    not typos but another language.
    """

    clause_terms: Sequence[list[str]]
    terms: Sequence[str]
    known_terms: Sequence[Term]
    corrections: Mapping[str, str]
    is_foreign: bool

    def apply_to(self, text: str) -> str:
        """Apply the corrections to a text of the request."""
        return replace_words(text, self.corrections)


def correct_typos(
    index: Index, spellings: SpellingIndex | None, clauses: Sequence[str], allowed: Mask
) -> CorrectedQuery:
    """Look up the terms of a query's clauses, and correct words that look like typos.

    Only words of visible tools are candidates, so a correction reveals nothing about hidden tools.
    Quoted text is a value and stays, and so do words that the embedder knows. Without
    `spellings` nothing is corrected.
    """
    words = list(map(tokenize, clauses))
    by_word = list(map(terms_by_word, words))
    clause_terms = [list(chain.from_iterable(its)) for its in by_word]
    every = list(chain.from_iterable(clause_terms))
    distinct = dict.fromkeys(every)
    found = index.look_up_terms(distinct, allowed)
    known = [term for term in found if term is not None]
    if spellings is None or len(known) == len(distinct):
        return CorrectedQuery(clause_terms, every, known, {}, is_foreign=False)
    unknown = [text for text, term in zip(distinct, found, strict=True) if term is None]
    suspects = {term for term in unknown if term.isalpha()}  # with digits it is a value
    parts = zip(clauses, words, by_word, clause_terms, strict=True)
    typed = _words_of_terms(parts, suspects) if suspects else {}
    replacements, corrections = _correct_words(index, spellings, typed, allowed)
    if replacements:
        clause_terms = [[replacements.get(t, t) for t in clause] for clause in clause_terms]
        every = list(chain.from_iterable(clause_terms))
        known = index.find_terms(dict.fromkeys(every), allowed)
    is_foreign = 2 * len(unknown) > len(distinct)
    return CorrectedQuery(clause_terms, every, known, corrections, is_foreign=is_foreign)


def _correct_words(
    index: Index, spellings: SpellingIndex, typed: Mapping[str, str], allowed: Mask
) -> tuple[dict[str, str], dict[str, str]]:
    """The corrections of some words, given by term: new terms by term, and new words by word."""
    replacements: dict[str, str] = {}
    corrections: dict[str, str] = {}
    cache = index.lexicon.visible_terms(allowed).corrections if typed else {}
    for term, word in islice(typed.items(), _MAX_CORRECTIONS):
        correction = cache.get(word, _NOT_CACHED)
        if correction is _NOT_CACHED:
            # Emptied as a whole, which is safe while other threads read it.
            if len(cache) >= _CACHE_SIZE:
                cache.clear()
            correction = cache[word] = _find_correction(index, spellings, word, term, allowed)
        # Asked last, because the embedder has to tokenize the word: most words have no candidate.
        if correction and not spellings.is_word(word):
            replacements[term], corrections[word] = correction
    return replacements, corrections


def unknown_terms(index: Index, texts: Collection[str], allowed: Mask) -> list[str]:
    """The terms that no visible tool has."""
    found = index.look_up_terms(texts, allowed)
    return [text for text, term in zip(texts, found, strict=True) if term is None]


def _words_of_terms(
    clauses: Iterable[tuple[str, Sequence[str], Sequence[tuple[str, ...]], Sequence[str]]],
    suspects: AbstractSet[str],
) -> dict[str, str]:
    """The typed word of each suspect term, unless it is quoted.

    Each clause comes as its text, its words, the terms of each word, and all its terms.
    """
    found: dict[str, str] = {}
    for clause, words, by_word, clause_terms in clauses:
        if suspects.isdisjoint(clause_terms):
            continue
        plain = drop_quotations(clause)
        if plain is not clause:
            words = tokenize(plain)
            by_word = terms_by_word(words)
        for word, its in zip(words, by_word, strict=True):
            if not its or suspects.isdisjoint(its):
                continue
            if word.isalpha() and (word.islower() or word.istitle()):
                forms = [(word.casefold(), its)]
            else:  # an identifier may contain the typo as one of its words
                forms = [(form, terms(form)) for form in word_forms((word,))]
            for form, form_terms in forms:
                if _is_correctable(form):
                    found |= {term: form for term in form_terms if term in suspects}
    return found


def _find_correction(
    index: Index, spellings: SpellingIndex, word: str, term: str, allowed: Mask
) -> tuple[str, str] | None:
    """The term and the word that a typo stands for.

    The typed word is compared with words as tools write them. Only then its stem is compared with
    their stems, since the word may be a form that no tool writes.
    """
    found = spellings.near_words(index.shared.vocabulary, word)
    # Words with the same term are not a correction: this term is known to be invisible.
    near = [candidate for candidate in found if candidate[2] != term]
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
    index: Index, word: str, candidates: Iterable[tuple[int, str, str]], allowed: Mask
) -> Iterator[tuple[str, Term]]:
    """The candidates that visible tools have, most likely first, with their terms.

    At equal distance, swapped letters are more likely than a wrong letter, and a wrong letter is
    more likely than a missing or extra one. After that, the word that more tools have.
    """
    found: list[tuple[tuple[int, bool, bool, int, str], Term]] = []
    letters = sorted(word)
    for distance, other, stem in candidates:
        known = index.lexicon.get(stem)
        if known is None:
            continue
        count = known.document_frequency
        if allowed is not index.alive:
            count = int(np.count_nonzero(allowed.take(known.posting_list.slots)))
        if count:
            is_anagram, is_same_length = sorted(other) == letters, len(other) == len(word)
            rank = (distance, not is_anagram, not is_same_length, -count, other)
            found.append((rank, known))
    found.sort(key=lambda pair: pair[0])
    yield from ((rank[-1], known) for rank, known in found)


def _closest_form(
    index: Index, spellings: SpellingIndex, word: str, known: Term, allowed: Mask
) -> str:
    """The form of a term in visible tools that is closest to a word."""
    forms = sorted(spellings.forms.get(known.text, ()), key=lambda f: (OSA.distance(word, f), f))
    visible = (form for form in forms if _occurs_in_tools(index, known, form, allowed))
    return next(visible, known.text)


def _occurs_in_tools(index: Index, known: Term, word: str, allowed: Mask) -> bool:
    """Whether a visible tool contains a word in exactly this form."""
    # The vocabulary only grows. Until a tool is removed, each of its words is in some tool.
    if allowed is index.alive and not index.shared.vocabulary.has_removals:
        return True
    slots = known.posting_list.slots
    tools = [index.tool(slot) for slot in slots.compress(allowed.take(slots)).tolist()]
    # Parameters last: reading them takes longer than the other texts of all tools.
    return any(_occurs_in_texts(tool, word) for tool in tools) or any(
        _occurs_in_parameters(tool.parameters, word) for tool in tools
    )


def _occurs_in_texts(tool: Tool, word: str) -> bool:
    """Whether a word occurs in a tool's texts, apart from its parameters."""
    if _contains_word(tool.description, word):
        return True
    named = (tool.name, tool.title, tool.server, tool.category)
    return _contains_word(" ".join((*named, *tool.tags, *tool.phrases)), word)


def _occurs_in_parameters(schema: Schema, word: str) -> bool:
    # The JSON text contains all descriptions; a substring search in it is faster. Not if it
    # has accents, which words are compared without.
    if schema.text.isascii() and word not in schema.text.lower():
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
    # `mail` occurs in `sendMail`, though it has no word boundary there.
    return has_camel_case(text) and word in word_forms(tokenize(text))


def _is_correctable(text: str) -> bool:
    # Scripts from U+2E80 on (Han, kana, Hangul) have no spelling in this sense.
    return MIN_WORD_CHARS <= len(text) <= MAX_WORD_CHARS and text.isalpha() and text[0] < "\u2e7f"
