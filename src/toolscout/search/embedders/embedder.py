"""The seam for vectors: something that turns texts into unit vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np
import numpy.typing as npt

from ...errors import EmbedderError

Floats = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into vectors of length one; `id` names the model, for caches."""

    @property
    def id(self) -> str:
        """The model and everything that changes its vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """How long a vector is."""
        ...

    @property
    def is_latin_only(self) -> bool:
        """Whether it knows only languages in Latin script, and is not asked about others."""
        ...

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row a text; raises EmbedderError when it cannot."""
        ...


@runtime_checkable
class QueryEncoder(Protocol):
    """An embedder that takes questions otherwise than the texts they are compared with."""

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """One row a question; somebody waits for it."""
        ...


class CrossLingualEmbedder(Embedder, Protocol):
    """An embedder to which a word and its translations are nearly the same."""

    @property
    def translation_threshold(self) -> float:
        """The cosine from which on two words may mean the same."""
        ...


def is_cross_lingual(embedder: Embedder) -> TypeGuard[CrossLingualEmbedder]:
    """Whether an embedder knows words well enough; nothing else of it is looked at."""
    return hasattr(embedder, "translation_threshold")


class VocabularyEmbedder(Embedder, Protocol):
    """An embedder that can tell what of a text it knows."""

    def legibility(self, text: str) -> float:
        """How well it reads a text, from 0 to 1: nothing of a script that it never saw."""
        ...

    def is_word(self, text: str) -> bool:
        """Whether it knows a word whole; what it has to spell out may be a slip."""
        ...


def has_vocabulary(embedder: Embedder) -> TypeGuard[VocabularyEmbedder]:
    """Whether an embedder can tell what it knows; nothing else of it is looked at."""
    return hasattr(embedder, "legibility") and hasattr(embedder, "is_word")


def legibility(embedder: Embedder, text: str) -> float:
    """How well an embedder reads a text; whoever cannot tell is trusted with all of it."""
    return embedder.legibility(text) if has_vocabulary(embedder) else 1.0


@dataclass(frozen=True, slots=True)
class Prompts:
    """What a model wants in front of a question and of a text; unset means as its files say."""

    query: str | None = None
    passage: str | None = None


def encode_texts(embedder: Embedder, texts: Sequence[str], *, are_queries: bool = False) -> Floats:
    """Vectors that can be relied on: a row a text, numbers throughout; anything else is an error.

    An embedder may be anybody's code, and however it fails, the search goes on without it.
    """
    # Lone surrogates are in no encoding that a model or a wire could take.
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
            f"The embedder {embedder.id} gave no usable vectors for {len(texts)} texts.",
            hint="encode() returns an array with one row of finite numbers a text.",
        )
    return rows


def normalize_rows(rows: Floats) -> Floats:
    """The rows scaled to length one; a row of zeros, which points nowhere, stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def dimension_error(name: str, width: int, known: int) -> EmbedderError:
    """An embedder that sends vectors of another length than before is another model by now."""
    return EmbedderError(
        f"The embedder {name} sends vectors of {width} numbers where it sent {known}.",
        hint="The model behind it has changed: delete the vector cache and start again.",
    )
