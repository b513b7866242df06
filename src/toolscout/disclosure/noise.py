"""Recognise queries that no tool fits: random letters, and requests about something else."""

from __future__ import annotations

import re
from dataclasses import replace

from ..embedders.embedder import PieceEmbedder, VocabularyEmbedder, has_vocabulary
from ..search.analyzer import latin_share, terms
from ..search.engine import Allow, Engine
from ..search.hit import MAX_NEAR, Results

# Of 512 queries of random letters on four catalogs, all but four are less similar to the best tool.
_NOISE_SIMILARITY = 0.35
# For a query with a real word. In sixteen languages, two of 126 right answers are below.
_MIN_SIMILARITY = 0.1
# docs/decisions/ranking.md has the shares of real and of other requests below these.
_MIN_CONFIDENCE = 0.12
_LATIN_WORD = re.compile(r"[^\W\d_]{3,}")
_MAX_CHECKED_CHARS = 500
_PIECE_CHARS = 3
_LONG_WORD_CHARS = 8
_LETTER = re.compile(r"[^\W\d_]")


def is_noise(query: str, results: Results, engine: Engine) -> bool:
    """Whether a query without a word of the catalog is as far from it as random letters."""
    similarity = results.evidence.similarity if results.evidence else None
    if similarity is None:
        return False
    # The confidence does not help here: an embedder places random letters somewhere too, and words
    # near that place are taken for their translation.
    return similarity < (_MIN_SIMILARITY if _knows_words(query, engine) else _NOISE_SIMILARITY)


def drop_noise(results: Results, engine: Engine, *, allow: Allow | None = None) -> Results:
    """The results without hits where nothing fits; the names of the hits are then `near`."""
    if not _fits_nothing(results, engine, allow):
        return results
    near = tuple(dict.fromkeys((*results.names, *results.near)))[:MAX_NEAR]
    return replace(results, hits=(), near=near, confidence=0.0)


def _fits_nothing(results: Results, engine: Engine, allow: Allow | None) -> bool:
    has_similarity = results.evidence is not None and results.evidence.similarity is not None
    # While vectors are still being made, similarity says nothing about the tools without one.
    if results.confidence == 1 or not has_similarity or not engine.status.is_complete:
        return False
    # In other languages both figures are lower, and right answers would be lost.
    if not results.query.isascii():
        return False
    if results.confidence < _MIN_CONFIDENCE:
        return True
    # A number alone says nothing, unless a tool has it.
    if _LETTER.search(results.query):
        # A real request of known words may be far from every tool: its hits are only doubted.
        if _knows_words(results.query, engine):
            return False
        if not is_noise(results.query, results, engine):
            return False
    return not engine.search(results.query, limit=1, allow=allow, arms="words").hits


def _knows_words(text: str, engine: Engine) -> bool:
    """Whether an embedder knows half of the words of a text; true where none can say."""
    readers = [e for e in engine.embedders if has_vocabulary(e)]
    words = _LATIN_WORD.findall(text[:_MAX_CHECKED_CHARS].casefold())
    # Other scripts have words of a letter or two, which say nothing.
    if not (readers and words and latin_share(text) == 1):
        return True
    words = [word for word in words if terms(word)]
    known = [word for word in words if any(_is_known(word, reader) for reader in readers)]
    # Many a piece of three letters is in a vocabulary, so half of the words is not enough.
    is_half_enough = any(len(word) > _PIECE_CHARS for word in known)
    return 2 * len(known) >= len(words) + (not is_half_enough)


def _is_known(word: str, reader: VocabularyEmbedder) -> bool:
    # "freezing" is two pieces of a vocabulary. So few pieces of so many letters are not chance:
    # of 2,000 strings of eight random letters none was wordlike.
    if len(word) >= _LONG_WORD_CHARS and isinstance(reader, PieceEmbedder):
        return reader.is_word(word) or reader.is_wordlike(word)
    return reader.is_word(word)
