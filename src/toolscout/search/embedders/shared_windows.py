"""The bundled encoder for many texts at once: token windows that repeat are computed once.

Before it sums the tokens of a text, the model looks at no more than four neighbours on each side.
The texts of a tool repeat its name and description, and tools repeat phrases, so most windows occur
several times in a batch. docs/decisions/vectors.md has the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Floats

MAX_TOKENS = 4_000
"""Windows are shared up to this many tokens: five numbers below 4,096 fit in one integer."""

Numbers = npt.NDArray[np.int64]

_BITS = 12
_UNKNOWN, _BEGIN, _END = 0, 1, 2
# Windows reach two tokens to each side. So many empty positions keep texts apart.
_GAP = 2
_ORDERS = ((2, 0), (3, 1), (5, 2))  # of each branch: tokens in a window, and those to the left
_WIDTH, _BRANCH = 512, 256
_CHUNKS = 17  # the quantized table has a scale for each of them
_MAX_CACHED_WORDS = 16_384
_MAX_CACHED_CHARS = 32
_PROBES = ("Probe: list the files, in São Paulo.", "x", " ")
_TOLERANCE = 1e-4


class Level(NamedTuple):
    """A row of values for each different window, and which window is at each position."""

    values: Floats
    numbers: Numbers


class SharedWindows:
    """Encodes texts with the weights of the bundled model; safe to use from many threads."""

    def __init__(self, model: Any) -> None:
        # The package has no type hints and no public access to its parts: see `of`.
        self._tokenizer: Any = model._tokenizer
        self._weights: Any = model._model
        self._layers = [
            [
                (_by_slot(self._weights.w1[branch]), self._weights.b1[branch]),
                (_by_slot(self._weights.w2[branch]), self._weights.b2[branch]),
            ]
            for branch in range(len(_ORDERS))
        ]
        self._segment_cached = lru_cache(maxsize=_MAX_CACHED_WORDS)(self._segment)

    @classmethod
    def of(cls, model: Any) -> SharedWindows | None:
        """The same model with shared windows; None if they do not give the model's vectors."""
        # Another version of the package may store its weights in another way.
        try:
            shared = cls(model)
            found = shared.encode([shared.token_ids(text) for text in _PROBES])
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return None
        is_equal = np.abs(found - model.encode(list(_PROBES))).max() < _TOLERANCE
        return shared if is_equal else None

    def token_ids(self, text: str) -> list[int]:
        """The tokens of a text, with the markers at both ends."""
        # No token of the vocabulary spans a space, so words can be segmented one by one.
        words = [
            self._segment_cached(word) if len(word) <= _MAX_CACHED_CHARS else self._segment(word)
            for word in text.split(" ")
        ]
        return [_BEGIN, *(tuple(chain.from_iterable(words)) or (_UNKNOWN,)), _END]

    def _segment(self, word: str) -> tuple[int, ...]:
        normalized: str = self._tokenizer._normalizer.normalize(word)
        return tuple(self._tokenizer._viterbi(normalized)) if normalized else ()

    def encode(self, texts: Sequence[Sequence[int]]) -> Floats:
        """One unit vector per text, given as tokens."""
        if (size := sum(map(len, texts))) > MAX_TOKENS:
            rows = np.empty((len(texts), _WIDTH), np.float32)
            self._weights._encode_batch(texts, size, rows)
            return rows
        layout = _Layout(texts)
        table, numbers = layout.number_tokens()
        embedded = self._embed(table)
        tokens = Level(self._project(embedded), numbers)
        branches = [self._run_branch(layout, tokens, branch) for branch in range(len(_ORDERS))]
        # The widest window contains all others: one row of features for each different one.
        windows = branches[-1].numbers
        firsts = layout.first_positions(windows)
        features = np.empty((len(firsts), _WIDTH + len(_ORDERS) * _BRANCH), np.float32)
        features[:, :_WIDTH] = embedded[numbers[firsts]]
        for branch, level in enumerate(branches):
            start = _WIDTH + branch * _BRANCH
            features[:, start : start + _BRANCH] = level.values[level.numbers[firsts]]
        weights = self._weights
        _normalize_layer(features, weights.ln_g, weights.ln_b, weights.eps)
        sums = np.stack([features[windows[span]].sum(axis=0) for span in layout.spans])
        return self._finish(sums, np.array([len(text) for text in texts], np.float32))

    def _embed(self, tokens: Numbers) -> Floats:
        """The embeddings of tokens, from the quantized table."""
        chunks = tokens % _CHUNKS
        rows: Floats = self._weights.table[tokens].astype(np.float32)
        rows *= self._weights.scale[chunks, None]
        rows += self._weights.lo[chunks, None]
        return rows

    def _project(self, embedded: Floats) -> Floats:
        weights = self._weights
        rows: Floats = embedded @ weights.proj_W
        rows += weights.proj_b
        _normalize_layer(rows, weights.ln_g_all, weights.ln_b_all, weights.eps)
        return rows

    def _run_branch(self, layout: _Layout, tokens: Level, branch: int) -> Level:
        """Two convolutions of one window size."""
        size, left = _ORDERS[branch]
        values = np.ascontiguousarray(tokens.values[:, branch * _BRANCH : (branch + 1) * _BRANCH])
        level = Level(values, tokens.numbers)
        for weights, bias in self._layers[branch]:
            slots, numbers = layout.number_windows(level.numbers, size, left)
            level = Level(_convolve(level.values, slots, left, weights, bias), numbers)
        return level

    def _finish(self, sums: Floats, lengths: Floats) -> Floats:
        """The dense layers after the tokens of each text are summed."""
        weights = self._weights
        mean: Floats = sums @ weights.cnn_W
        mean += lengths[:, None] * weights.cnn_b
        mean /= np.sqrt(lengths)[:, None]
        first = np.maximum(mean @ weights.d0, 0)
        second = np.maximum(mean @ weights.p1 + first @ weights.d1, 0)
        third = np.maximum(second @ weights.d2, 0)
        rows: Floats = np.tanh(second @ weights.p3 + third @ weights.d3)
        rows /= np.sqrt(np.maximum((rows * rows).sum(axis=1), weights.eps))[:, None]
        return rows


class _Layout:
    """The tokens of a batch in a row, with gaps between texts."""

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        starts = list(accumulate((len(text) + _GAP for text in texts), initial=_GAP))
        self.spans = [
            slice(start, start + len(text)) for start, text in zip(starts[:-1], texts, strict=True)
        ]
        self._size = starts[-1]
        self._tokens = np.fromiter(chain.from_iterable(texts), np.int64)
        self._places = np.concatenate([np.arange(span.start, span.stop) for span in self.spans])

    def number_tokens(self) -> tuple[Numbers, Numbers]:
        """The different tokens, and which of them is at each position."""
        table, inverse = np.unique(self._tokens, return_inverse=True)
        return table, self._spread(inverse, gap=len(table))

    def number_windows(self, numbers: Numbers, size: int, left: int) -> tuple[Numbers, Numbers]:
        """The different windows as rows of numbers, and which of them is at each position."""
        keys = np.zeros(len(self._places), np.int64)
        for slot in range(size):
            keys = (keys << _BITS) | numbers[self._places + (slot - left)]
        found, inverse = np.unique(keys, return_inverse=True)
        shifts = _BITS * np.arange(size - 1, -1, -1)
        return (found[:, None] >> shifts) & ((1 << _BITS) - 1), self._spread(
            inverse, gap=len(found)
        )

    def first_positions(self, numbers: Numbers) -> Numbers:
        """Where each number is first."""
        _, first = np.unique(numbers[self._places], return_index=True)
        return self._places[first]

    def _spread(self, values: Numbers, *, gap: int) -> Numbers:
        numbers = np.full(self._size, gap, np.int64)
        numbers[self._places] = values
        return numbers


def _by_slot(weights: Floats) -> Floats:
    """The weights of a convolution as one matrix with the slots of its window side by side."""
    slots = weights.reshape(-1, _BRANCH, _BRANCH)
    return np.ascontiguousarray(slots.transpose(1, 0, 2).reshape(_BRANCH, -1))


def _convolve(values: Floats, slots: Numbers, left: int, weights: Floats, bias: Floats) -> Floats:
    """A convolution with a residual connection, for windows given as rows of numbers."""
    # Each value is multiplied once for each slot, not once for each window that contains it. The
    # row after the last is zero: a slot in a gap.
    size = slots.shape[1]
    products = np.zeros((len(values) + 1, size, _BRANCH), np.float32)
    np.matmul(values, weights, out=products[:-1].reshape(len(values), -1))
    rows = products[slots[:, 0], 0]
    for slot in range(1, size):
        rows += products[slots[:, slot], slot]
    rows += bias
    np.maximum(rows, 0, out=rows)
    rows += values[slots[:, left]]
    return rows


def _normalize_layer(rows: Floats, gain: Floats, bias: Floats, epsilon: float) -> None:
    """Layer normalization in place."""
    rows -= rows.mean(axis=1, keepdims=True)
    variance = np.einsum("ij,ij->i", rows, rows) / rows.shape[1]
    rows *= np.reciprocal(np.sqrt(variance + epsilon))[:, None]
    rows *= gain
    rows += bias
