"""Typo correction: a word that no tool has is read as a similar word of the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from ..catalog.tool import Tool
from ..embedders.arrays import Mask
from ..embedders.quotations import drop_quotations
from ..embedders.trigrams import fits_language
from .analyzer import fold, replace_words, terms, tokenize, word_forms
from .index import Index
from .lexicon import Term
from .spelling import MAX_WORD_CHARS, MIN_WORD_CHARS, Spelling, is_likely_typo

# Bounds the work for a long text in an unknown language, where every word looks like a typo.
_MAX_CORRECTIONS = 16


class CorrectedQuery(NamedTuple):
    """The terms of a request with typos corrected, and the corrections by typo.

    `clause_terms` are the terms of each clause, `known_terms` those that a visible tool has.
    `is_foreign` says that most words are unknown: then they are probably not typos but another
    language.
    """

    clause_terms: Sequence[list[str]]
    known_terms: Sequence[Term]
    corrections: Mapping[str, str]
    is_foreign: bool

    @property
    def terms(self) -> list[str]:
        """The terms of all clauses."""
        return list(chain.from_iterable(self.clause_terms))

    def apply_to(self, text: str) -> str:
        """Apply the corrections to a text of the request."""
        return replace_words(text, self.corrections)


def correct_typos(
    index: Index, spelling: Spelling | None, clauses: Sequence[str], allowed: Mask
) -> CorrectedQuery:
    """Look up the terms of a query's clauses, and correct words that look like typos.

    Only words of visible tools are candidates, so a correction reveals nothing about hidden tools.
    Quoted text is a value and stays, and so do words that the embedder knows. Without `spelling`
    nothing is corrected.
    """
    clause_terms = [terms(clause) for clause in clauses]
    distinct = list(dict.fromkeys(chain.from_iterable(clause_terms)))
    found = index.look_up_terms(distinct, allowed)
    known = [term for term in found if term is not None]
    if spelling is None or len(known) == len(distinct):
        return CorrectedQuery(clause_terms, known, {}, is_foreign=False)
    unknown = [text for text, term in zip(distinct, found, strict=True) if term is None]
    suspects = {term for term in unknown if term.isalpha()}  # with digits it is a value
    replacements: dict[str, str] = {}
    corrections: dict[str, str] = {}
    # Most clauses have no suspect, and need no closer look.
    suspicious = [c for c, its in zip(clauses, clause_terms, strict=True) if suspects & {*its}]
    for term, word in islice(_typed_words(suspicious, suspects).items(), _MAX_CORRECTIONS):
        correction = _find_correction(index, spelling, word, term, allowed)
        # Asked last, because the embedder has to tokenize the word: most words have no candidate.
        if correction and not _is_meant(spelling, word, correction[1], clauses):
            replacements[term], corrections[word] = correction
    if replacements:
        clause_terms = [[replacements.get(t, t) for t in clause] for clause in clause_terms]
        known = index.find_terms(dict.fromkeys(chain.from_iterable(clause_terms)), allowed)
    is_foreign = 2 * len(unknown) > len(distinct)
    return CorrectedQuery(clause_terms, known, corrections, is_foreign=is_foreign)


def _typed_words(clauses: Sequence[str], suspects: set[str]) -> dict[str, str]:
    """The typed word of each suspect term, unless it is quoted."""
    found: dict[str, str] = {}
    for clause in clauses:
        # An identifier may contain the typo as one of its words.
        for form in word_forms(tokenize(drop_quotations(clause))):
            if _is_correctable(form):
                found |= {term: form for term in terms(form) if term in suspects}
    return found


def _find_correction(
    index: Index, spelling: Spelling, word: str, term: str, allowed: Mask
) -> tuple[str, str] | None:
    """The term and the word that a typo stands for.

    It is compared with words as tools write them.
    """
    found = spelling.near_words(index.shared.vocabulary, word)
    near = [(distance, other, terms(other)[:1]) for distance, other in found]
    # Words with the same term are not a correction: this term is known to be invisible.
    candidates = [(d, other, its[0]) for d, other, its in near if its and its[0] != term]
    for other, known, is_likely in _order_candidates(index, word, candidates, allowed):
        if not is_likely and spelling.is_wordlike(word):
            break
        if _occurs_in_tools(index, known, other, allowed):
            return known.text, other
    return None


def _is_meant(spelling: Spelling, word: str, other: str, clauses: Sequence[str]) -> bool:
    """Whether a word is meant as it was typed: it is a word, or one of the text's language."""
    return spelling.is_word(word) or fits_language(word, " ".join(clauses), rather_than=other)


def _order_candidates(
    index: Index, word: str, candidates: Iterable[tuple[int, str, str]], allowed: Mask
) -> Iterator[tuple[str, Term, bool]]:
    """The candidates that visible tools have, likely typos first, with their terms.

    At equal distance, swapped letters are more likely than a wrong letter, and a wrong letter is
    more likely than a missing or extra one. After that, the word that more tools have.
    """
    found: list[tuple[tuple[bool, int, bool, bool, int, str], Term]] = []
    letters = sorted(word)
    for distance, other, stem in candidates:
        known = index.lexicon.get(stem)
        if known is not None and (count := int(np.count_nonzero(allowed.take(known.slots)))):
            is_anagram, is_same_length = sorted(other) == letters, len(other) == len(word)
            rank = distance, not is_anagram, not is_same_length, -count, other
            found.append(((not is_likely_typo(word, other, distance), *rank), known))
    found.sort(key=lambda pair: pair[0])
    yield from ((rank[-1], known, not rank[0]) for rank, known in found)


def _occurs_in_tools(index: Index, known: Term, word: str, allowed: Mask) -> bool:
    """Whether a visible tool contains a word in exactly this form."""
    # The vocabulary only grows. Until a tool is removed, each of its words is in some tool.
    if allowed is index.alive and not index.shared.vocabulary.has_removals:
        return True
    visible = known.slots.compress(allowed.take(known.slots)).tolist()
    return any(_contains_word(index.tool(slot), word) for slot in visible)


def _contains_word(tool: Tool, word: str) -> bool:
    named = (tool.name, tool.title, tool.server, tool.category, *tool.tags, *tool.phrases)
    texts = (*named, tool.description, *chain.from_iterable(tool.parameters.descriptions()))
    text = fold(" ".join(texts))
    # The quick test first: taking the words apart is slow.
    return word in text.casefold() and word in word_forms(tokenize(text))


def _is_correctable(text: str) -> bool:
    # Scripts from U+2E80 on (Han, kana, Hangul) have no spelling in this sense.
    return MIN_WORD_CHARS <= len(text) <= MAX_WORD_CHARS and text.isalpha() and text[0] < "\u2e7f"
