"""The embedder contract: turns texts into unit vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np

from ..errors import EmbedderError
from .arrays import Floats


class Embedder(Protocol):
    """Turns texts into unit vectors; `id` names the model in caches."""

    @property
    def id(self) -> str:
        """The model and everything that changes its vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    @property
    def is_latin_only(self) -> bool:
        """Whether it knows only languages in Latin script; other texts get less trust."""
        ...

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row per text; raises EmbedderError if it fails."""
        ...


@runtime_checkable
class QueryEncoder(Protocol):
    """An embedder that encodes queries in another way than the texts they are compared with."""

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """One row per query; called during a search, so it should be quick."""
        ...


class CrossLingualEmbedder(Embedder, Protocol):
    """An embedder that places a word near its translations."""

    @property
    def translation_threshold(self) -> float:
        """The lowest cosine at which two words may be translations."""
        ...


# hasattr instead of isinstance with a runtime protocol, which reads every property (before Python
# 3.12): an embedder may load its model to answer `dimensions`.
def is_cross_lingual(embedder: Embedder) -> TypeGuard[CrossLingualEmbedder]:
    """Whether an embedder can translate words."""
    return hasattr(embedder, "translation_threshold")


class VocabularyEmbedder(Embedder, Protocol):
    """An embedder that can say which texts and words it knows."""

    def vocabulary_coverage(self, text: str) -> float:
        """How well it reads a text, from 0 to 1; 0 for a script that it does not know."""
        ...

    def is_word(self, text: str) -> bool:
        """Whether a word is in its vocabulary; others may be typos."""
        ...


def has_vocabulary(embedder: Embedder) -> TypeGuard[VocabularyEmbedder]:
    """Whether an embedder can say which words it knows."""
    return hasattr(embedder, "vocabulary_coverage") and hasattr(embedder, "is_word")


@runtime_checkable
class PieceEmbedder(Protocol):
    """An embedder that reads words in pieces, and can say which are made of few."""

    def is_wordlike(self, text: str) -> bool:
        """Whether something is made like a word: of two pieces at most."""
        ...


def vocabulary_coverage(embedder: Embedder, text: str) -> float:
    """How well an embedder reads a text; 1 for an embedder that cannot say."""
    return embedder.vocabulary_coverage(text) if has_vocabulary(embedder) else 1.0


@runtime_checkable
class LanguageEmbedder(Protocol):
    """An embedder that can say in which languages it reads."""

    def knows_language(self, text: str) -> bool:
        """Whether a text seems to be in a language that it knows."""
        ...


def knows_language(embedder: Embedder, text: str) -> bool:
    """Whether an embedder can read the language of a text; true for one that cannot say."""
    if isinstance(embedder, LanguageEmbedder):
        return embedder.knows_language(text)
    return vocabulary_coverage(embedder, text) > 0


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prefixes that a model needs before queries and texts; None means the model's default."""

    query: str | None = None
    passage: str | None = None


def encode_texts(embedder: Embedder, texts: Sequence[str], *, are_queries: bool = False) -> Floats:
    """Encode texts and check the result: one row of finite numbers per text.

    An embedder may be custom code. Every exception becomes an EmbedderError, so that the search can
    continue without it.
    """
    # Lone surrogates cannot be encoded as UTF-8, which tokenizers and HTTP need.
    texts = [t if t.isascii() else t.encode(errors="replace").decode() for t in texts]
    try:
        if are_queries and isinstance(embedder, QueryEncoder):
            rows = embedder.encode_queries(texts)
        else:
            rows = embedder.encode(texts)
        rows = np.asarray(rows, dtype=np.float32)
    except EmbedderError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"[:200]
        raise EmbedderError(f"The embedder {embedder.id} failed: {what}.") from error
    if rows.ndim != 2 or len(rows) != len(texts) or not np.isfinite(rows).all():
        raise EmbedderError(
            f"The embedder {embedder.id} returned no usable vectors for {len(texts)} texts.",
            hint="encode() must return an array with one row of finite numbers per text.",
        )
    return rows


def normalize_rows(rows: Floats) -> Floats:
    """Scale rows to length one; rows of zeros stay unchanged."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def dimension_error(name: str, width: int, known: int) -> EmbedderError:
    """The error for vectors of another length than before: the model must have changed."""
    return EmbedderError(
        f"The embedder {name} sends vectors of {width} numbers where it sent {known}.",
        hint="The model behind it has changed: delete the vector cache and start again.",
    )
