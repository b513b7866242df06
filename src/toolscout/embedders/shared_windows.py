"""The bundled encoder, faster: token windows that repeat are computed once.

Before it sums the tokens of a text, the model looks at no more than four neighbours on each side.
The texts of a tool repeat its name and description, and tools repeat phrases, so most windows occur
several times in a batch. Up to the first windows everything depends on single tokens, and requests
repeat those too: the values of their tokens are kept. docs/decisions/vectors.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import Floats

MAX_TOKENS = 4_000
"""Windows are shared up to this many tokens: five numbers below 4,096 fit in one integer."""

Numbers = npt.NDArray[np.int64]

_BITS = 12
_UNKNOWN, _BEGIN, _END = 0, 1, 2
# Windows reach two tokens to each side. So many empty positions keep texts apart.
_GAP = 2
_ORDERS = ((2, 0), (3, 1), (5, 2))  # of each branch: tokens in a window, and those to the left
_WIDTH, _BRANCH = 512, 256
# Columns of the values of a token: its projection for each branch, then the parts of each branch.
_PART_STARTS = tuple(accumulate((size * _BRANCH for size, _ in _ORDERS), initial=3 * _BRANCH))
_CHUNKS = 17  # the quantized table has a scale for each of them
_MAX_CACHED_WORDS = 16_384
_MAX_CACHED_CHARS = 32
# The values of a token take 13 kB. The batches of a catalog, with many tokens, pass them by.
_MAX_CACHED_TOKENS = 1_536
_MAX_TOKENS_TO_CACHE = 384
_PROBES = ("Probe: list the files, in São Paulo.", "x", " ")
_TOLERANCE = 1e-4


class SharedWindows:
    """Encodes texts with the weights of the bundled model; safe to use from many threads."""

    def __init__(self, model: Any) -> None:
        # The package has no type hints and no public access to its parts: see `of`.
        self._tokenizer: Any = model._tokenizer
        self._weights: Any = model._model
        self._first = [_by_slot(matrix) for matrix in self._weights.w1]
        self._second = [_by_slot(matrix) for matrix in self._weights.w2]
        self._token_cache = _TokenCache(self._token_values)
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
        tokens = self._token_cache.get(table)
        branches = [self._run_branch(layout, tokens, numbers, b) for b in range(len(_ORDERS))]
        # The widest window contains all others: one row of features for each different one.
        _, windows = branches[-1]
        firsts = layout.first_positions(windows)
        features = np.empty((len(firsts), _WIDTH + len(_ORDERS) * _BRANCH), np.float32)
        features[:, :_WIDTH] = self._embed(table)[numbers[firsts]]
        for branch, (values, places) in enumerate(branches):
            start = _WIDTH + branch * _BRANCH
            features[:, start : start + _BRANCH] = values[places[firsts]]
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

    def _token_values(self, tokens: Numbers) -> Floats:
        """What depends on a token alone: its projection, and its part in each first window."""
        weights = self._weights
        rows: Floats = self._embed(tokens) @ weights.proj_W
        rows += weights.proj_b
        _normalize_layer(rows, weights.ln_g_all, weights.ln_b_all, weights.eps)
        branches = np.split(rows, len(_ORDERS), axis=1)
        parts = [values @ first for values, first in zip(branches, self._first, strict=True)]
        return np.concatenate([rows, *parts], axis=1)

    def _run_branch(
        self, layout: _Layout, tokens: Floats, numbers: Numbers, branch: int
    ) -> tuple[Floats, Numbers]:
        """Two convolutions of one window size: the values of windows, and where each of them is."""
        size, left = _ORDERS[branch]
        values = tokens[:, branch * _BRANCH : (branch + 1) * _BRANCH]
        parts = tokens[:, _PART_STARTS[branch] : _PART_STARTS[branch + 1]]
        slots, numbers = layout.number_windows(numbers, size, left)
        values = _convolve(values, parts, slots, left, self._weights.b1[branch])
        slots, numbers = layout.number_windows(numbers, size, left)
        parts = values @ self._second[branch]
        return _convolve(values, parts, slots, left, self._weights.b2[branch]), numbers

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


def _convolve(values: Floats, parts: Floats, slots: Numbers, left: int, bias: Floats) -> Floats:
    """A convolution with a residual connection, for windows given as rows of numbers.

    `parts` has the product of each value with the weights of each slot.
    """
    # Multiplied once for each slot, not once for each window that contains the value. The number
    # after the last is a gap.
    is_gap = slots == len(values)
    slots = np.where(is_gap, 0, slots)
    rows = np.repeat(bias[None], len(slots), axis=0)
    for slot in range(slots.shape[1]):
        part = parts[slots[:, slot], slot * _BRANCH : (slot + 1) * _BRANCH]
        part[is_gap[:, slot]] = 0
        rows += part
    np.maximum(rows, 0, out=rows)
    rows += values[slots[:, left]]
    return rows


class _TokenCache:
    """The values of the tokens of small batches; the batches of a catalog are not kept."""

    def __init__(self, compute: Callable[[Numbers], Floats]) -> None:
        self._compute = compute
        self._lock = Lock()
        self._places: dict[int, int] = {}
        self._rows = np.empty((_MAX_CACHED_TOKENS, _PART_STARTS[-1]), np.float32)

    def get(self, tokens: Numbers) -> Floats:
        """One row per token."""
        if len(tokens) > _MAX_TOKENS_TO_CACHE:
            return self._compute(tokens)
        with self._lock:
            places = np.array([self._places.get(token, -1) for token in tokens.tolist()])
            is_new = places < 0
            rows = self._rows[places]
        if is_new.any():
            rows[is_new] = self._compute(tokens[is_new])
            self._add(tokens[is_new].tolist(), rows[is_new])
        return rows

    def _add(self, tokens: Sequence[int], rows: Floats) -> None:
        with self._lock:
            if len(self._places) + len(tokens) > _MAX_CACHED_TOKENS:
                self._places.clear()
            for token, row in zip(tokens, rows, strict=True):
                place = self._places.setdefault(token, len(self._places))
                self._rows[place] = row


def _normalize_layer(rows: Floats, gain: Floats, bias: Floats, epsilon: float) -> None:
    """Layer normalization in place."""
    rows -= rows.mean(axis=1, keepdims=True)
    variance = np.einsum("ij,ij->i", rows, rows) / rows.shape[1]
    rows *= np.reciprocal(np.sqrt(variance + epsilon))[:, None]
    rows *= gain
    rows += bias
